"""Reading local state from any thread: ``app.store("spend").get("ada")``.

A query sees committed state only, all of one commit or nothing of it. It reads the partitions that
this instance owns; for a key whose partition is elsewhere, or is still being restored, it raises
StoreUnavailableError with the reason and the owner, instead of returning None.

The partition of a key is uncertain if other producers write the topology's input, because they may
place keys otherwise (librdkafka's default does), and if processors write other keys. A key that is
not found there is looked up in all local partitions. If some partitions are not local, the row may
exist elsewhere: the query raises StoreUnavailableError, unless the caller passes how keys were
placed. So None is never returned for a row that exists.

How it works: a task publishes an immutable view at each commit, and the first query of a store
creates a reader over it, for all queries of the view. A reader has the store's reads and no writes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, TypeVar, cast

from logstate.changelog.stores.readers import MakeReader, reader_maker
from logstate.changelog.view import CommittedRows, StateView
from logstate.contracts.errors import StoreAccessError, StoreUnavailableError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import (
    StoreSpec,
    check_arguments,
    checked_partition,
    no_such_read,
)
from logstate.contracts.topic_names import changelog_topic
from logstate.queries.freshness import Freshness
from logstate.queries.global_stores import GlobalStores
from logstate.queries.store_reads import StoreReads
from logstate.task.owned_task import OwnedTask, Stage

_END = object()


def found_rows(answer: Any) -> tuple[bool, Any]:
    """Return whether there is a result, and the result; this reads an iterator's first row.

    >>> found_rows(None)
    (False, None)
    >>> is_there, rows = found_rows(iter([1, 2]))
    >>> is_there, list(rows)
    (True, [1, 2])
    """
    if not isinstance(answer, Iterator):
        return answer is not None, answer
    first = next(answer, _END)
    return (False, iter(())) if first is _END else (True, chain((first,), answer))


T = TypeVar("T")

#: the worker creates the first view of global stores at its next turn
_FIRST_VIEW_S = 10.0


def unless_ended(
    store: str, why: Callable[[], str | None], question: Callable[[], T]
) -> Callable[[], T]:
    """Return the read, which raises StoreUnavailableError once ``why`` returns a reason."""

    def ask() -> T:
        ended = why()
        if ended is not None:
            raise StoreUnavailableError(
                f"store {store!r} cannot be read: {ended}. Ask another instance, or start this one"
                " again"
            )
        return question()

    return ask


@dataclass(frozen=True)
class Answer:
    """The result of reading one partition, and the positions of its rows."""

    #: a scan returns one iterator over one commit
    value: Any
    #: input partition -> the first offset that the rows do not include yet; empty if unknown,
    #: because a standby was read
    positions: Mapping[TopicPartition, int]
    #: of a standby: offsets of its changelogs that the rows lack; None: the owner was read
    lag: int | None = None


class QueryableStore(StoreReads):
    """A store of the application as this instance can see it.

    Reads by key raise StoreUnavailableError if the key's partition is elsewhere or restoring;
    ``range``, ``all``, ``fetch_all``, ``fetch_key_range`` and similar reads scan the partitions
    that this instance owns, and ``approximate_num_entries`` counts their rows.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        tasks: Callable[[], Mapping[TaskId, OwnedTask]],
        sub_topology: int,
        partition_count: Callable[[], int | None],
        partition_for: Callable[[bytes, int], int],
        freshness: Freshness | None = None,
        *,
        is_placed: bool = True,
    ) -> None:
        """``is_placed``: the application itself placed each key by ``partition_for``."""
        self.name = spec.name
        #: each key is in the partition of its hash, so no other one is searched
        self.is_placed = is_placed
        self._freshness = freshness or Freshness()
        self._spec = spec
        self._application_id = application_id
        self._tasks = tasks
        self._sub_topology = sub_topology
        self._partition_count = partition_count
        self._partition_for = partition_for
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        self._encode_key = spec.key.serializer(topic, True)
        #: serdes are bound for the first reader
        self._maker: MakeReader | None = None

    def fetch_range(
        self,
        key: Any,
        from_ms: int,
        to_ms: int,
        *,
        reverse: bool = False,
        partition: int | None = None,
    ) -> Iterator[Any]:
        """Yield windows of a key by start, both ends inclusive."""
        span = from_ms, to_ms
        found = self._of_key("fetch_range", partition, key, *span, reverse=reverse)
        return cast("Iterator[Any]", found)

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """Yield rows whose serialized key begins with the prefix: bytes, or text for text keys.

        Raises StoreArgumentError for a prefix of another type.
        """
        return self._over_all("prefix_scan", prefix)

    @property
    def partitions(self) -> list[int]:
        """Return the partitions of the store that can be read here now."""
        return sorted(o.task_id.partition for o in self._local() if is_readable(o))

    @property
    def lag(self) -> int:
        """Return the changelog offsets that local rows lack, over all partitions of standbys.

        Returns 0 if this instance owns all local partitions.
        """
        return sum(owned.shown_lag or 0 for owned in self._local())

    @property
    def age(self) -> timedelta:
        """Return the current age of results: since the rows here were last known to be the newest.

        With several partitions, that of the oldest. It is a fraction of a second as long as
        commits succeed, and grows while the brokers are unavailable or a task restarts after a
        failure. Records that wait to be processed do not count.
        """
        ages = [self._freshness.age_ms(o) for o in self._local() if is_readable(o)]
        return timedelta(milliseconds=max(ages, default=0.0))

    # ------------------------------------------------------------------ pieces

    def _local(self) -> list[OwnedTask]:
        return [o for t, o in sorted(self._tasks().items()) if t.sub_topology == self._sub_topology]

    def _over_all(self, read: str, *arguments: Any) -> Iterator[Any]:
        check_arguments(self._spec, self._encode_key, read, arguments)
        return self._rows_here(read, *arguments)

    def _rows_here(self, read: str, *arguments: Any) -> Iterator[Any]:
        local = self._local()
        if not local:
            raise self._nowhere()
        for owned in local:
            yield from self._read(owned, read)(*arguments)

    def _of_each(self, read: str) -> Iterator[Any]:
        local = self._local()
        if not local:
            raise self._nowhere()
        return (self._read(owned, read)() for owned in local)

    def _of_key(
        self, read: str, partition: int | None, key: Any, *arguments: Any, **options: Any
    ) -> Any:
        try:
            return self._found(read, checked_partition(self.name, partition), key, *arguments,
                               **options)  # fmt: skip
        except StoreAccessError:
            raise
        except Exception:
            # Checked only now: most arguments are valid, and some reads are very frequent.
            check_arguments(self._spec, self._encode_key, read, (key, *arguments), options)
            raise

    def _found(
        self, read: str, partition: int | None, key: Any, *arguments: Any, **options: Any
    ) -> Any:
        if partition is not None:
            return self.of_partition(partition, read)(key, *arguments, **options)
        guess = self._guess(key)
        if self.is_placed:
            return self.of_partition(guess, read)(key, *arguments, **options)
        elsewhere: StoreUnavailableError | None = None
        is_there, found = False, None
        try:
            is_there, found = found_rows(self.of_partition(guess, read)(key, *arguments, **options))
        except StoreUnavailableError as exc:
            elsewhere = exc
        if is_there:
            return found
        seen = {guess}
        for other in self.partitions:
            with suppress(StoreUnavailableError):  # then it is not searched
                answer = self.of_partition(other, read)(key, *arguments, **options)
                is_there, rows = found_rows(answer)
                if is_there:
                    return rows
                seen.add(other)
        if elsewhere is not None:
            raise elsewhere
        self._check_guess(key, seen)
        return found

    def _guess(self, key: Any) -> int:
        count = self._partition_count()
        if count is None:
            raise StoreUnavailableError(
                f"store {self.name!r} cannot be read yet: the application has not started"
            )
        return self._partition_for(self._encode_key(key), count)

    def _check_guess(self, key: Any, seen: Container[int]) -> None:
        """Handle a missing row; raise StoreUnavailableError if it may be elsewhere."""
        unseen = [p for p in range(self._partition_count() or 0) if p not in seen]
        if unseen:
            raise StoreUnavailableError(
                f"store {self.name!r}: key {key!r:.100} was not found in the partitions of this"
                f" instance. It may be in {unseen}, because producers of the input may not use the"
                " murmur2 partitioner (librdkafka's default is CRC32). Ask all instances with"
                " app.remote_store(), pass partition=, or, if all producers use the partitioner"
                " of Kafka's Java client, app.store(..., placed_by='murmur2')"
            )

    def of_partition(self, partition: int, read: str) -> Callable[..., Any]:
        """Return a read of one partition, by its name.

        Raises StoreUnavailableError if the partition is elsewhere or restoring.
        """
        return self._read(self._owner_of(partition), read)

    def answer(
        self, partition: int, read: str, arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Answer:
        """Read one partition with its positions, both of the same commit.

        Raises StoreUnavailableError if the partition is elsewhere or restoring, and if it moved
        during the read.
        """
        owned = self._owner_of(partition)
        view = self._view(owned)
        found = self._method(view, read)(*arguments, **options)
        self._owner_of(partition)
        if owned.stage is Stage.STANDBY:
            return Answer(found, {}, owned.shown_lag)
        return Answer(found, view.inputs)

    def _owner_of(self, partition: int) -> OwnedTask:
        owned = self._tasks().get(TaskId(self._sub_topology, partition))
        if owned is None:
            raise self._elsewhere(partition, [o.task_id.partition for o in self._local()])
        return owned

    def _elsewhere(self, partition: int, here: Sequence[int]) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"store {self.name!r}: the key's partition {partition} is not on this instance, which"
            f" has partitions {list(here)}; ask the instance that owns it"
        )

    def _nowhere(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"store {self.name!r}: this instance owns none of its partitions yet; they are on"
            " other instances, or it is still joining the group"
        )

    def _read(self, owned: OwnedTask, name: str) -> Callable[..., Any]:
        """Return a read of the store of one partition, by its name."""
        return self._method(self._view(owned), name)

    def _method(self, view: StateView, name: str) -> Callable[..., Any]:
        reader = view.reader(self.name, self._make_reader)
        method = getattr(reader, name, None)
        if method is None:
            raise no_such_read(self._spec, reader, name)
        return cast("Callable[..., Any]", method)

    def _view(self, owned: OwnedTask) -> StateView:
        task = owned.task_or_none
        view = task.state.view if task is not None else None
        if not is_readable(owned) or view is None or not view.rows:
            raise StoreUnavailableError(
                f"store {self.name!r}: partition {owned.task_id.partition} is"
                f" {owned.stage.value} on this instance ({_progress(owned)}); retry when it is done"
            )
        self._freshness.check(self.name, owned)
        return view

    def _make_reader(self, rows: CommittedRows, clocks: Mapping[str, int]) -> Any:
        if self._maker is None:
            self._maker = reader_maker(self._spec, self._application_id)
        return self._maker(rows, clocks)


def is_readable(owned: OwnedTask) -> bool:
    """Return whether committed rows can be read: also while a task restarts after it ran.

    A task that has restored its rows and has not run cannot be read: their age is unknown.
    """
    return owned.current_ms is not None or owned.stage is Stage.RUNNING


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
    """A global store; every instance has all of its rows. ``partition=`` has no meaning here.

    A query sees the batches that the instance has completely read so far. Views of in-memory
    stores need occasional copies, so they are created from the first query on.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        sub_topology: int,
        globals_: Callable[[], GlobalStores | None],
        freshness: Freshness | None = None,
    ) -> None:
        super().__init__(
            spec, application_id, self._owned, sub_topology, lambda: 1, _only_partition, freshness
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
                f"global store {self.name!r} cannot be read: its worker is busy, or has ended;"
                " try again"
            )
        owned = OwnedTask(task.task_id, task.partitions, 0, task, Stage.RUNNING)
        owned.current_ms = self._freshness.now_ms()  # except for unavailable brokers
        return {task.task_id: owned}


def _only_partition(key: bytes, count: int) -> int:  # noqa: ARG001  wherever it came from
    return 0
