"""The counter store: a key-value store of whole numbers that are added to in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from logstate.changelog.rows.serialization_errors import (
    key_serialization_error,
    value_serialization_error,
)
from logstate.changelog.stores.key_value import KEY_VALUE, TaskKeyValueStore
from logstate.changelog.stores.store_kind import StoreKind

K = TypeVar("K")


class CounterStore(TaskKeyValueStore[K, int]):
    """A number per key; a key without a row counts as 0."""

    def add(self, key: K, amount: int = 1) -> int:
        """Add an amount, which may be negative, and return the sum. A sum of 0 is a row, too.

        Raises SerdeError for a sum that does not fit into 64 bits, TypeError for an amount that is
        not an int; the number is unchanged then.
        """
        try:
            row_key = self.codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.name, key, error) from error.__cause__
        row = self._rows.get(row_key)
        if type(amount) is not int:
            raise TypeError(
                f"store {self.name!r}: the amount to add is an int, found {type(amount).__name__}"
            )
        total = amount if row is None else self.codec.decode_value(row) + amount
        try:
            row = self.codec.encode_value(total)
        except Exception as error:  # noqa: BLE001
            raise value_serialization_error(self.name, error) from error.__cause__
        self._rows.put(row_key, row)
        self._writes.add(row_key, (row_key, row, self._context.timestamp, None))
        return total


COUNTERS: Final[StoreKind] = replace(KEY_VALUE, name="counter", store=CounterStore)
