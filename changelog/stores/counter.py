"""The counter store: a key-value store of whole numbers that are added to in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from logstate.changelog.stores.key_value import KEY_VALUE, TaskKeyValueStore
from logstate.changelog.stores.store_kind import StoreKind

K = TypeVar("K")


class TaskCounterStore(TaskKeyValueStore[K, int]):
    """A number per key; a key without a row counts as 0."""

    def add(self, key: K, amount: int = 1) -> int:
        """Add an amount, which may be negative, and return the sum. A sum of 0 is a row, too.

        Raises SerdeError for a sum that does not fit into 64 bits, TypeError for an amount that is
        not an int; the number is unchanged then.
        """
        found = self.get(key)
        if type(amount) is not int:
            raise TypeError(
                f"store {self.name!r}: the amount to add is an int, found {type(amount).__name__}"
            )
        total = (found or 0) + amount
        # False from a store with a TTL: the record is older than that, and adds nothing.
        is_dropped = self.put(key, total) is False  # type: ignore[func-returns-value]
        return (found or 0) if is_dropped else total


COUNTERS: Final[StoreKind] = replace(KEY_VALUE, name="counter", store=TaskCounterStore)
