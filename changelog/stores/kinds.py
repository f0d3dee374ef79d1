"""The store kinds: which class keeps which kind of store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.changelog.stores.key_value import TaskKeyValueStore
from logstate.changelog.stores.lru import LruStore, TimestampedLruStore
from logstate.changelog.stores.outer_join_buffer import OuterJoinBuffer
from logstate.changelog.stores.session import TaskSessionStore
from logstate.changelog.stores.subscription import SubscriptionStore
from logstate.changelog.stores.suppress_buffer import SuppressBuffer
from logstate.changelog.stores.timestamped_key_value import TimestampedKeyValueStore
from logstate.changelog.stores.versioned import TaskVersionedStore
from logstate.changelog.stores.window import TaskWindowStore
from logstate.contracts.errors import TopologyError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec


class Store(Protocol):
    """The interface of every kind."""

    name: str

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing; learns the store's clock."""


StoreClass: TypeAlias = "Callable[[StoreSpec, Rows, ChangelogWrites, TaskContext], Store]"

STORE_CLASSES: dict[str, StoreClass] = {
    "key_value": TaskKeyValueStore,
    "key_value_lru": LruStore,
    "timestamped_key_value": TimestampedKeyValueStore,
    "timestamped_key_value_lru": TimestampedLruStore,
    "window": TaskWindowStore,
    "timestamped_window": TaskWindowStore,
    "session": TaskSessionStore,
    "versioned": TaskVersionedStore,
    "suppress_buffer": SuppressBuffer,
    "outer_join": OuterJoinBuffer,
    "join_buffer": JoinBuffer,
    "foreign_key_subscription": SubscriptionStore,
}


def build_store(
    spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
) -> Store:
    """The store that ``spec`` declares, over ``rows``; what it has to log goes to ``writes``."""
    store_class = STORE_CLASSES.get(spec.kind)
    if store_class is None:
        raise TopologyError(
            f"unknown store kind {spec.kind!r} of store {spec.name!r}; "
            f"known: {', '.join(STORE_CLASSES)}",
            declared_at=spec.declared_at,
        )
    return store_class(spec, rows, writes, context)
