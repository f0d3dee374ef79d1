"""Aggregation per key and session: records no further apart than the gap belong together.

A session is [first record, last record], both ends inclusive. A record extends the session within
reach, joins several into one, or starts its own. Sessions that grow or merge change their key: the
old row is removed and forwarded as a tombstone BEFORE the new row.

Semantics, exactly Kafka Streams' (`KStreamSessionWindowAggregate`):

- null key: dropped, counted. Null VALUE: the aggregator is called with it.
- a distance of exactly the gap still merges. The aggregate is folded in the order of the store (end
  of the session): ``merger(key, so far, found)`` beginning with the initializer's value, the
  record's own value comes last.
- late: a session is closed once the operator's stream time exceeds its end by more than gap +
  grace. What counts is the session that the record would end up in: a record far behind is accepted
  if it reaches a session that is still open. Dropped records are counted. With ``late`` they are
  emitted instead, with the session that they would have ended up in.
- result: key ``Windowed(key, start, end)``; timestamp = the session's END, for tombstones too.
  Record headers do not travel with it, except with ``emit="commit"`` and a store without headers:
  it sends those of the record that wrote the session last. A result of None removes the row.
- old values: a tombstone carries its row as old value, a new session none. A session that is
  updated in place, by a second record of the same millisecond, does not send its old value either,
  so that a downstream `group_by` has both in its sum; ``emit="commit"`` and a table of exact
  changes send it.
- with its default retention, gap + grace, the store hides the oldest sessions that are still open:
  a record at distance exactly gap may not find them. Give the store more retention if that matters.
- ``emit="commit"``: a session that begins and ends its existence between two commits sends nothing.
- ``emit="close"``: only final sessions, ordered by end, start, key; no tombstones. A session that
  was final can still be joined by a record that is just in time itself: then both are emitted. A
  table of exact changes deletes the one that was final, by a tombstone.
  Sessions that the store expires before they are emitted are lost, counted
  (``expired_results_total``) and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import ValueAndTimestamp
from logstate.topology.declaring.windows import SessionWindows
from logstate.topology.graph.nodes import Children, Forward, ValueGetter
from logstate.topology.operators.aggregates.emit_on_close import (
    CloseClock,
    Emission,
    close_when_idle,
    emission_of,
    emitting_closed,
    sent_until,
    stream_time_of,
)
from logstate.topology.operators.aggregates.fold import FoldNode, deletion_note
from logstate.topology.operators.aggregates.initial_values import new_values
from logstate.topology.operators.streams.late_records import late_output

#: forwards (session, aggregate, old aggregate, headers of the record)
SessionForward: TypeAlias = Callable[[Windowed[Any], Any, Any, Headers], None]


class SessionAggregateNode(FoldNode):
    """One row per key and session. Adds ``merger(key, one, other)`` to the usual callbacks."""

    windows: SessionWindows
    merger: Callable[[Any, Any, Any], Any]
    emit_interval_ms: int | None = 0

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.windows.close_on_idle_ms

    def row_getter(self, task: TaskContext) -> ValueGetter:
        fetch_session = task.store(self.store.name).fetch_session

        def latest(session: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
            value = fetch_session(session.key, session.start_ms, session.end_ms)
            return None if value is None else ValueAndTimestamp(value, session.end_ms)

        return ValueGetter(latest)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> StreamProcess:
        observed = stream_time_of(task, self.store.name, self.group_number, self.emit)
        wait = self.windows.gap_ms + self.windows.grace_ms
        if self.emit == "close":
            retract = self._compile_retraction(task, forward)
            update = self._compile_update(task, retract, children)
            emission = self._compile_emission(task, forward)
            close_when_idle(task, self, observed, wait, emission)
            return emitting_closed(update, observed, wait, emission.after_record)
        close_when_idle(task, self, observed, wait)
        forward = self.commit_buffered(task, forward)
        if self.emit == "commit":
            held = _held_session(forward, with_headers=not self.store.with_headers)
            return self._compile_update(task, held, children)
        sends_old = self.sends_old_values

        def forward_session(session: Windowed[Any], new: Any, old: Any, headers: Headers) -> None:
            forward(session, new, old if sends_old else None, session.end_ms, None, True)

        return self._compile_update(task, forward_session, children)

    def _compile_update(
        self, task: TaskContext, forward: SessionForward | None, children: Children
    ) -> StreamProcess:
        store = task.store(self.store.name)
        find_sessions, put, remove = store.find_sessions, store.put, store.remove
        initializer = new_values(self.initializer, self.store)
        aggregator, merger = self.aggregator, self.merger
        gap, grace = self.windows.gap_ms, self.windows.grace_ms
        observed = stream_time_of(task, self.store.name, self.group_number, self.emit)
        removed_value = self._compile_removed_value(task)
        sends_replaced = self.emit == "commit" or self.sends_exact_changes
        note_deletion = deletion_note(self, task)
        drop_null_key = task.dropper(self.name, DropReason.NULL_KEY)
        drop_late = task.dropper(self.name, DropReason.LATE)
        emit_late = late_output(self, children, DropReason.LATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop_null_key()
                return
            if timestamp > observed.time:
                observed.time = timestamp
            start = end = timestamp
            aggregate = initializer()
            found = []
            for session, row in find_sessions(key, timestamp - gap, timestamp + gap):
                found.append((session, removed_value(session, row)))
                aggregate = merger(key, aggregate, row)
                start = min(start, session.start_ms)
                end = max(end, session.end_ms)
            if end < observed.time - grace - gap:
                late_ms = observed.time - grace - gap - end
                if emit_late is None:
                    drop_late(late_ms)
                else:
                    missed = Windowed(key, start, end)
                    emit_late(key, value, timestamp, headers, missed, late_ms)
                return
            task.timestamp, task.headers = timestamp, headers
            if start != end:
                for session, row in found:
                    remove(session)
                    if forward is not None:
                        forward(session, None, row, headers)
                        task.timestamp, task.headers = timestamp, headers
            aggregate = aggregator(key, value, aggregate)
            if aggregate is None:
                note_deletion()
            merged = Windowed(key, start, end)
            put(merged, aggregate)
            if forward is not None:
                is_replaced = sends_replaced and found and start == end
                forward(merged, aggregate, found[0][1] if is_replaced else None, headers)

        return process

    def _compile_removed_value(self, task: TaskContext) -> Callable[[Windowed[Any], Any], Any]:
        """The value of a found session as its tombstone's old value.

        The merger may change a mutable aggregate in place, so that needs a copy: decoded again.
        """
        if self.store.value.immutable or not self.sends_old_values:
            return lambda session, row: row
        fetch_session = task.store(self.store.name).fetch_session
        return lambda session, row: fetch_session(session.key, session.start_ms, session.end_ms)

    def _compile_retraction(
        self, task: TaskContext, forward: TableProcess
    ) -> SessionForward | None:
        """Return what deletes a final session that a later one takes in; None: nothing does."""
        if not self.sends_exact_changes:
            return None
        sent = sent_until(task, self.store.name)

        def retract(session: Windowed[Any], new: Any, old: Any, headers: Headers) -> None:
            if new is None and session.end_ms < sent.time:
                forward(session, None, old, session.end_ms, headers, True)

        return retract

    def _compile_emission(self, task: TaskContext, forward: TableProcess) -> Emission:
        find_ended = task.store(self.store.name).find_ended
        clock = CloseClock(task, self.store.name, self.emit_interval_ms)

        def rows(lower: int, upper: int) -> Iterator[tuple[Windowed[Any], Any, int]]:
            return ((found, value, found.end_ms) for found, value in find_ended(lower, upper))

        return emission_of(task, self.store, clock, rows, forward)


def _held_session(forward: TableProcess, *, with_headers: bool) -> SessionForward:
    """Return a function that forwards sessions, with old values, to their buffer."""

    def forward_session(session: Windowed[Any], new: Any, old: Any, headers: Headers) -> None:
        forward(session, new, old, session.end_ms, headers if with_headers else None, True)

    return forward_session
