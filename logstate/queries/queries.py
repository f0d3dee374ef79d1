"""Reading local state from any thread: ``app.store("spend").get("ada")``.

A query sees committed state only, all of one commit or nothing of it. It is answered from the
partitions this instance owns; for a key whose partition is elsewhere, or is still being restored,
it raises StoreUnavailableError that says which and where things stand, instead of answering None.

How it works: a task publishes an immutable view at each commit; the store classes that tasks use
are put over that view, read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stores.kinds import Store, build_store
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers, TaskId
from logstate.contracts.stores import StoreSpec, no_such_read
from logstate.contracts.topic_names import changelog_topic, topic_name
from logstate.queries.global_stores import GlobalStores
from logstate.task.owned_task import OwnedTask, Stage

T = TypeVar("T")

#: the worker makes the first view of global stores at its next turn
_FIRST_VIEW_S = 10.0


def unless_ended(
    store: str, why: Callable[[], str | None], question: Callable[[], T]
) -> Callable[[], T]:
    """The question; it raises StoreUnavailableError once ``why`` says why there are no answers."""

    def ask() -> T:
        ended = why()
        if ended is not None:
            raise StoreUnavailableError(
                f"store {store!r} cannot be read: {ended}. Ask another instance, or start this one"
                " again"
            )
        return question()

    return ask


class QueryContext:
    """The little of a task context that a store needs to be read."""

    def __init__(self, application_id: str, task_id: TaskId, clocks: Mapping[str, int]) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.timestamp = -1
        self.headers: Headers = None
        self.topic: str | None = None
        self.partition = task_id.partition
        self.offset = -1
        self.stream_time = -1
        self._clocks = clocks

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return topic_name(self.application_id, name, is_internal=is_internal)

    def time_cell(self, name: str) -> TimeCell:
        return TimeCell(self._clocks.get(name, -1))

    def drop(self, reason: str) -> None:
        """Nothing is counted for queries."""


class QueryableStore:
    """A store of the application as this instance can see it.

    ``get``, ``fetch``, ``fetch_range``, ``fetch_session``, ``find_sessions`` and ``versions`` take
    a key and are answered by its partition; ``range``, ``all``, ``fetch_all``, ``fetch_key_range``
    and their like go over the local partitions in order. Which of them a store has depends on its
    kind, see :mod:`logstate.contracts.stores`.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        tasks: Callable[[], Mapping[TaskId, OwnedTask]],
        sub_topology: int,
        partition_count: Callable[[], int | None],
        partition_for: Callable[[bytes, int], int],
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._application_id = application_id
        self._tasks = tasks
        self._sub_topology = sub_topology
        self._partition_count = partition_count
        self._partition_for = partition_for
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        self._encode_key = spec.key.serializer(topic, True)

    # ------------------------------------------------------------------ by key

    def get(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """The value of a key, or None.

        ``partition`` is only needed where the topology's input uses a partitioner of its own. A
        versioned store takes ``as_of`` as second argument.

        Raises StoreUnavailableError where the key's partition is elsewhere or restoring.
        """
        return self._of_key("get", key, partition)(key, *arguments)

    def fetch(self, key: Any, *arguments: Any, partition: int | None = None) -> Any:
        """Window store: the value at a window start. Session store: all sessions of the key."""
        return self._of_key("fetch", key, partition)(key, *arguments)

    def fetch_range(
        self,
        key: Any,
        from_ms: int,
        to_ms: int,
        *,
        reverse: bool = False,
        partition: int | None = None,
    ) -> Iterator[Any]:
        """Windows of a key by start, both ends inclusive."""
        read = self._of_key("fetch_range", key, partition)
        return cast("Iterator[Any]", read(key, from_ms, to_ms, reverse=reverse))

    def fetch_session(
        self, key: Any, start_ms: int, end_ms: int, *, partition: int | None = None
    ) -> Any:
        """One session, or None."""
        return self._of_key("fetch_session", key, partition)(key, start_ms, end_ms)

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int, *, partition: int | None = None
    ) -> Iterator[Any]:
        """Sessions of a key that overlap a span."""
        read = self._of_key("find_sessions", key, partition)
        return cast("Iterator[Any]", read(key, earliest_end_ms, latest_start_ms))

    def versions(
        self,
        key: Any,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> Iterator[Any]:
        """The versions of a key that were valid at some time of the range, oldest first."""
        read = self._of_key("versions", key, partition)
        return cast("Iterator[Any]", read(key, from_ms, to_ms))

    # ------------------------------------------------------------------ over local partitions

    def range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """Rows between two keys, both inclusive, partition by partition."""
        return self._over_all("range", lower, upper)

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """The same, descending within each partition."""
        return self._over_all("reverse_range", lower, upper)

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """Rows whose serialised key begins with the prefix."""
        return self._over_all("prefix_scan", prefix)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every row of the partitions that this instance owns."""
        return self._over_all("all")

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Any, Any]]:
        """Windows of every key by start, both ends inclusive."""
        return self._over_all("fetch_all", from_ms, to_ms)

    def fetch_key_range(
        self, lower: Any, upper: Any, from_ms: int, to_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Windows of the keys between two, both inclusive, None = open."""
        return self._over_all("fetch_key_range", lower, upper, from_ms, to_ms)

    def find_sessions_of_key_range(
        self, lower: Any, upper: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Sessions that overlap a span, of the keys between two, both inclusive, None = open."""
        return self._over_all(
            "find_sessions_of_key_range", lower, upper, earliest_end_ms, latest_start_ms
        )

    @property
    def partitions(self) -> list[int]:
        """Partitions of the store that can be read here now."""
        return sorted(
            o.task_id.partition for o in self._local() if o.stage in (Stage.RUNNING, Stage.STARTING)
        )

    # ------------------------------------------------------------------ pieces

    def _local(self) -> list[OwnedTask]:
        return [o for t, o in sorted(self._tasks().items()) if t.sub_topology == self._sub_topology]

    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        local = self._local()
        if not local:
            raise StoreUnavailableError(
                f"store {self.name!r}: this instance owns none of its partitions yet; they are with"
                " other instances, or the group is still being joined"
            )
        for owned in local:
            yield from self._read(owned, read)(*arguments)

    def _of_key(self, read: str, key: Any, partition: int | None) -> Callable[..., Any]:
        if partition is None:
            count = self._partition_count()
            if count is None:
                raise StoreUnavailableError(
                    f"store {self.name!r} cannot be read yet: the application has not started"
                )
            partition = self._partition_for(self._encode_key(key), count)
        for owned in self._local():
            if owned.task_id.partition == partition:
                return self._read(owned, read)
        here = [o.task_id.partition for o in self._local()]
        raise StoreUnavailableError(
            f"store {self.name!r}: the key's partition {partition} is not on this instance, which"
            f" has partitions {here}; ask the instance that owns it"
        )

    def _read(self, owned: OwnedTask, name: str) -> Callable[..., Any]:
        """A read of the store of one partition, by its name."""
        store = self._readable(owned)
        method = getattr(store, name, None)
        if method is None:
            raise no_such_read(self._spec, store, name)
        return cast("Callable[..., Any]", method)

    def _readable(self, owned: OwnedTask) -> Store:
        task = owned.task_or_none
        view = task.state.view if task is not None else None
        if owned.stage in (Stage.ASSIGNED, Stage.RESTORING) or view is None or not view.rows:
            raise StoreUnavailableError(
                f"store {self.name!r}: partition {owned.task_id.partition} is"
                f" {owned.stage.value} on this instance ({_progress(owned)}); retry when it is done"
            )
        context: Any = QueryContext(self._application_id, owned.task_id, view.clocks)
        rows: Any = view.rows[self.name]
        return build_store(
            self._spec, rows, ChangelogWrites(is_logged=False, logs_every_write=False), context
        )


def _progress(owned: OwnedTask) -> str:
    if not owned.targets:
        return "waiting for its committed offsets"
    parts = []
    task = owned.task_or_none
    for target in owned.targets:
        position = 0 if task is None else task.state.positions.get(target.store, 0)
        parts.append(f"{target.store}: offset {position} of {target.target}")
    return ", ".join(parts)


class GlobalQueryableStore(QueryableStore):
    """A global store; every instance has all rows of it. ``partition=`` has no meaning here.

    A query sees what the instance has read of the topic so far, whole batches of it. Views of
    stores in memory cost copying now and then, so they are made from the first query on.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        sub_topology: int,
        globals_: Callable[[], GlobalStores | None],
    ) -> None:
        super().__init__(
            spec, application_id, self._owned, sub_topology, lambda: 1, _only_partition
        )
        self._globals = globals_

    def _owned(self) -> Mapping[TaskId, OwnedTask]:
        globals_ = self._globals()
        if globals_ is None:
            raise StoreUnavailableError(
                f"global store {self.name!r} cannot be read: the application has not started, or"
                " has ended"
            )
        task = globals_.queried(self._sub_topology, _FIRST_VIEW_S)
        if task is None:
            raise StoreUnavailableError(
                f"global store {self.name!r} cannot be read yet: the worker is busy; try again"
            )
        return {task.task_id: OwnedTask(task.task_id, task.partitions, 0, task, Stage.RUNNING)}


def _only_partition(key: bytes, count: int) -> int:  # noqa: ARG001  wherever it came from
    return 0
