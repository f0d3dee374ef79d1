"""The subscription store of a foreign-key join: which left rows subscribe to which right row.

A row is ``4 bytes length, foreign key | left key`` -> the subscription, so all subscriptions of a
foreign key are adjacent, in the order of the left keys' bytes. Changelog records are the same
bytes, with the timestamp and the headers of the record being processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from logstate.changelog.backend.backend import end_of_prefix
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stores.join_buffer import LoggedRows
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.errors import StoreError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import CombinedKeySerde, Subscription

F = TypeVar("F")
P = TypeVar("P")


class SubscriptionStore(LoggedRows, Generic[F, P]):
    """The subscriptions of one task."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        key = spec.key
        if not isinstance(key, CombinedKeySerde):
            raise StoreError(
                f"store {spec.name!r} keeps subscriptions, so its key serde must be a"
                f" CombinedKeySerde, not {key!r}; foreign-key joins declare such stores themselves"
            )
        topic = context.topic_name(key.registration_topic, is_internal=True)
        super().__init__(spec, rows, writes, context)
        self._encode_key = key.serializer(topic, True)
        self._encode_prefix = key.prefix_serializer(topic)
        self._encode = spec.value.serializer(topic, False)
        self._decode = spec.value.deserializer(topic, False)

    def subscribers(self, foreign_key: F) -> Iterator[Subscription]:
        """The subscriptions of a foreign key as of this call, in the order of the left keys."""
        prefix = self._encode_prefix(foreign_key)
        rows = self._rows.scan(prefix, end_of_prefix(prefix))
        return (self._decode(row) for _, row in rows)

    def put(self, foreign_key: F, subscription: Subscription) -> None:
        """Add or replace the subscription of a left row."""
        self._write(foreign_key, subscription, self._encode(subscription))

    def delete(self, foreign_key: F, subscription: Subscription) -> None:
        """Remove the left row's subscription; logged even where there is none."""
        self._write(foreign_key, subscription, None)

    def _write(self, foreign_key: F, subscription: Subscription, row: bytes | None) -> None:
        row_key = self._encode_key((foreign_key, subscription.primary_key))
        self._put_row(row_key, row, self._context.timestamp, self._context.headers)


FOREIGN_KEY_SUBSCRIPTION: Final = StoreKind(
    "foreign_key_subscription", SubscriptionStore,
    row_columns=(), is_internal=True, is_keyed_by_pair=True,
)  # fmt: skip
