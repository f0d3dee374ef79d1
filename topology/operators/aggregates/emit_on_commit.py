"""Buffering results until the commit: only the last update per key goes downstream.

This is the purpose of Kafka Streams' record cache, but exact: there, results depend on the cache
size and on the memory of the whole process; here, there is always one update per key and commit.

How it works. An aggregation that emits on commit calls :func:`hold_rows_until_commit` and forwards
to the result. With every update it sends the row that the update replaces, None if there was none,
whether an operator below needs old values or not. Every update replaces the held one of the same
key, but keeps the FIRST one's old value: that is the value of the previous emission, so a
downstream subtractor sees an unbroken chain of values. The task calls :meth:`BufferedUpdates.emit`
before it freezes a commit. The groups of a cogroup write the same rows, so their updates are
buffered once, where they meet.

Invariants, all of them those of Kafka Streams' cache:

1. between two emissions of a key, ``old`` of the second is ``new`` of the first; ``old`` of a first
   emission is None, never the initializer's value;
2. updates leave in the order of their LAST write;
3. the topic, partition and offset of the task are those of the held record while it is forwarded,
   and so is the record that an error handler gets; the headers are those of the last record that
   wrote the row;
4. a tombstone has the timestamp of the record that deleted the row (of a session: its end);
5. a key without a row at two successive commits sends nothing at the second one, whatever was
   written in between.

Three more, without a counterpart in Kafka Streams:

6. an update of an older version (versioned stores, which Kafka Streams does not cache) neither
   replaces the buffered update of the latest row nor is replaced by it;
7. a join that computes changes from this table's rows and another table's (and sends old values)
   reads a row as it was emitted last (:func:`as_forwarded`), so that it subtracts what it has
   sent. Kafka Streams' joins read the cache, and downstream sums drift (KAFKA-4609);
8. if a row expired (``ttl=``) and was written again since the last commit, both its last value and
   the new one are sent: sums of deltas and of changes are the same whenever commits are.

With ``emit="delta"`` a buffered update is forwarded as the difference of its new and its old value.
Nothing else is kept for that: a commit emits every row that it changes, so the committed rows are
the values that were emitted last, and after a crash the old value of an update is read from them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any, Final, TypeAlias

from logstate.contracts.processing import Contributors, TableProcess, TaskContext
from logstate.contracts.records import FetchedRecord, Headers, Windowed
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.contracts.topic_names import changelog_name
from logstate.serdes.built_in import equal_as_bytes
from logstate.topology.declaring.windows import Emit
from logstate.topology.graph.nodes import ValueGetter
from logstate.topology.operators.tables.rows import MaterializedNode, row_getter
from logstate.topology.operators.tables.to_stream import stream_below

#: (new, old) -> what added to ``old`` gives ``new``
Difference: TypeAlias = Callable[[Any, Any], Any]
#: key -> something hashable that is equal exactly for keys with equal bytes
Identity: TypeAlias = Callable[[Any], Hashable]


#: An update that waits, with the place of the record that caused it: order, topic, partition,
#: offset, key, new, old, timestamp, headers, is_latest; the record itself if a handler may ask
#: for it; the time of the row that was emitted last, if it is known. A plain tuple: every record
#: makes one.
HeldUpdate: TypeAlias = (
    "tuple[int, str | None, int, int, Any, Any, Any, int, Headers, bool, FetchedRecord | None,"
    " int | None]"
)
_KEY: Final = 4
_NEW: Final = 5
_OLD: Final = 6
_HEADERS: Final = 8
_IS_LATEST: Final = 9
_TIME_BEFORE: Final = 11
_order_of = itemgetter(0)
#: before the identity of a key, for updates of its older versions
_OLDER: Final = object()
#: the same for the last update of a row that has expired since
_EXPIRED: Final = object()


class BufferedUpdates:
    """The updates of one operator that wait for the commit."""

    def __init__(
        self,
        task: TaskContext,
        forward: TableProcess,
        store: StoreSpec,
        identity: Identity | None,
    ) -> None:
        self._task = task
        self._forward = forward
        #: the store whose rows are updated
        self.store = store
        self.identity: Identity = identity or (lambda key: key)
        #: time of the row before the next update; None: there was no row. An operator whose rows
        #: are read as emitted sets it before each update
        self.time_before: int | None = None
        #: the updates by identity; never replaced by another dict
        self.held: dict[Hashable, HeldUpdate] = {}
        self._journal: list[tuple[Hashable, HeldUpdate | None]] = []
        #: one record's updates may have to be undone
        self.is_journaled = False

    def note(self, identity: Hashable, earlier: HeldUpdate | None) -> None:
        """Remember the held update of a key that is about to be replaced."""
        self._journal.append((identity, earlier))

    def emit(self) -> bool:
        """Forward everything held; returns whether there was anything."""
        if not self.held:
            return False
        task, forward = self._task, self._forward
        updates = sorted(self.held.values(), key=_order_of)
        self.held.clear()
        place, fetched = (task.topic, task.partition, task.offset), task.fetched
        below = stream_below(forward)
        for update in updates:
            if update[_NEW] is None and update[_OLD] is None:
                continue  # no record below has this row
            _, topic, partition, offset, key, new, old, timestamp, headers, latest, record, _ = (
                update
            )
            task.topic = topic
            task.partition = partition
            task.offset = offset
            task.fetched = record
            try:
                if below is not None:
                    below(key, new, timestamp, headers)
                else:
                    forward(key, new, old, timestamp, headers, latest)
            except Exception as exc:  # noqa: BLE001  user code
                task.fetched = fetched
                task.commit_buffered_failed(exc, record)
        task.topic, task.partition, task.offset = place
        task.fetched = fetched
        return True

    def discard(self) -> None:
        """Drop the buffered updates: they are not committed and will be computed again."""
        self.held.clear()
        self._journal, self.is_journaled = [], False

    def begin_journal(self) -> None:
        """Remember what changes from here on, so that one record's updates can be undone."""
        self._journal, self.is_journaled = [], True

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` restore the buffered updates from before."""
        journal, self._journal = self._journal, []
        self.is_journaled = False
        if not rollback:
            return
        for identity, earlier in reversed(journal):
            if earlier is None:
                del self.held[identity]
            else:
                self.held[identity] = earlier


class TracedUpdates(BufferedUpdates):
    """Buffered updates whose results continue the traces of all records that they follow from."""

    def __init__(
        self,
        task: TaskContext,
        forward: TableProcess,
        store: StoreSpec,
        identity: Identity | None,
        contributors: Contributors,
    ) -> None:
        super().__init__(task, forward, store, identity)
        self._contributors = contributors

    def emit(self) -> bool:
        emitted = self._contributors.emitted
        for where, held in self.held.items():
            key, is_latest = held[_KEY], held[_IS_LATEST]
            traced = emitted((self.identity(key), is_latest), held[_HEADERS])
            self.held[where] = (*held[:_HEADERS], traced, *held[_HEADERS + 1 :])
        return super().emit()

    def discard(self) -> None:
        super().discard()
        self._contributors.clear()


def hold_rows_until_commit(
    task: TaskContext,
    forward: TableProcess,
    store: StoreSpec,
    *,
    sends_old_values: bool,
    difference: Difference | None = None,
) -> TableProcess:
    """A table edge in front of ``forward`` that passes on the last update per key and commit.

    The updates are of the rows of ``store`` and come with the rows that they replace. With a
    ``difference`` each is forwarded as the change since the commit before.
    """
    identity = _identity(task, store)
    below = forward if sends_old_values else _without_old_values(forward)
    if difference is not None:
        below = _deltas(forward, difference)
    traces = task.traces
    if traces is None:
        updates = BufferedUpdates(task, below, store, identity)
    else:
        contributors = traces.contributors(task, store.name)
        updates = TracedUpdates(task, below, store, identity, contributors)
    task.before_commit(updates)
    held, held_of, noted = updates.held, updates.held.get, updates.note
    may_expire = store.ttl_ms is not None
    order = 0

    def process(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        nonlocal order
        order += 1
        where = key if identity is None else identity(key)
        if not is_latest:
            where = _OLDER, where
        earlier = held_of(where)
        fetched = None
        if updates.is_journaled:  # some handler may be asked about it
            noted(where, earlier)
            fetched = task.fetched if task.topic is not None else None
        if may_expire and old is None and earlier is not None and earlier[_NEW] is not None:
            if updates.is_journaled:
                noted((_EXPIRED, order, where), None)
            held[_EXPIRED, order, where], earlier = earlier, None
        if earlier is None:
            time_before = updates.time_before
        else:
            old = earlier[_OLD]  # the value of the previous emission
            time_before = earlier[_TIME_BEFORE]
        held[where] = (
            order,
            task.topic,
            task.partition,
            task.offset,
            key,
            new,
            old,
            timestamp,
            headers,
            is_latest,
            fetched,
            time_before,
        )

    if traces is None:
        return process

    def process_traced(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        process(key, new, old, timestamp, headers, is_latest)
        contributors.add((key if identity is None else identity(key), is_latest), headers)

    return process_traced


def held_updates(task: TaskContext, store: StoreSpec) -> BufferedUpdates | None:
    """Return the buffered updates of ``store``; None before its buffering operator is compiled."""
    for held in task.commit_buffered:
        if isinstance(held, BufferedUpdates) and held.store is store:
            return held
    return None


def as_forwarded(task: TaskContext, store: StoreSpec, getter: ValueGetter) -> ValueGetter:
    """Return the getter of an aggregate with ``emit="commit"`` that reads rows as emitted last.

    The aggregate must send old values: these are the previous rows.
    """
    latest, value = getter.latest, store.value
    is_session, is_immutable = store.gap_ms is not None, value.immutable
    topic = task.topic_name(changelog_name(store.name), is_internal=True)
    write, read = value.serializer(topic, False), value.deserializer(topic, False)

    def forwarded(key: Any) -> StoredRow | None:
        updates = held_updates(task, store)
        held = None if updates is None else updates.held.get(updates.identity(key))
        if held is None:
            return latest(key)
        old = held[_OLD]
        time_before = key.end_ms if is_session else held[_TIME_BEFORE]
        if old is None or time_before is None:
            return None
        # A joiner may change its arguments, so it must not get the buffered object.
        return old if is_immutable else read(write(old)), time_before, None

    return getter._replace(forwarded=forwarded)


class AggregatedTableNode(MaterializedNode):
    """A table that an aggregation writes, whose updates may wait for the commit."""

    emit: Emit = "update"

    @property
    def reads_as_emitted(self) -> bool:
        """Whether rows are read as they were emitted last, while updates wait."""
        return self.emit == "commit" and self.sends_old_values

    def value_getter(self, task: TaskContext) -> ValueGetter:
        rows = self.row_getter(task)
        return as_forwarded(task, self.store, rows) if self.reads_as_emitted else rows

    def row_getter(self, task: TaskContext) -> ValueGetter:
        """Reads the rows of the store."""
        return row_getter(task, self.store)

    def rows_before(self, task: TaskContext) -> BufferedUpdates | None:
        """Return the updates to note the previous row in; call it after their node is compiled."""
        return held_updates(task, self.store) if self.reads_as_emitted else None


def _identity(task: TaskContext, store: StoreSpec) -> Identity | None:
    """Return a function from key to row identity; None if the key objects themselves suffice."""
    if equal_as_bytes(store.key):
        return None
    topic = task.topic_name(changelog_name(store.name), is_internal=True)
    serialize = store.key.serializer(topic, True)
    if not store.expires:
        return serialize

    def identity(windowed: Windowed[Any]) -> Hashable:
        return serialize(windowed.key), windowed.start_ms, windowed.end_ms

    return identity


def _deltas(forward: TableProcess, difference: Difference) -> TableProcess:
    """``forward`` for what has to be added to the sum of all that was forwarded for a row.

    The first value is added to nothing. For a deleted row it is what brings the sum back to zero,
    which is the difference of a value and itself.
    """
    below = stream_below(forward)

    def forward_delta(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        if not is_latest:
            return
        delta = new
        if old is not None:
            delta = difference(difference(old, old) if new is None else new, old)
        if below is not None:
            below(key, delta, timestamp, headers)
        else:
            forward(key, delta, None, timestamp, headers, True)

    return forward_delta


def _without_old_values(forward: TableProcess) -> TableProcess:
    """``forward`` for a node below that did not ask for old values."""
    if stream_below(forward) is not None:
        return forward  # it does not read old values

    def without_old(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        forward(key, new, None, timestamp, headers, is_latest)

    return without_old
