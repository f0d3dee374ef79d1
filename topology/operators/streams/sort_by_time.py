"""Sorting of a stream by event time.

Semantics:

- a record waits until stream time, that of the records that reach the operator, has passed its
  timestamp by the grace. Then it is forwarded with all others whose time has come, by timestamp;
  those with one timestamp in the order in which they arrived. It is forwarded unchanged, with its
  headers and the place that it came from, before the next record is processed.
- late: a record that is older than one that was forwarded cannot be forwarded in order. It is
  dropped and counted, or emitted with ``late``. An old record that is not older than the last
  forwarded one is not late.
- null keys and null values wait like all others.
- idle inputs: with ``close_on_idle`` stream time advances while the inputs are idle.

How it works: ``store`` has one row per waiting record, by timestamp and number of arrival. A record
that does not have to wait is forwarded without a row. A row is deleted before its record is
forwarded; both are in one commit with the input offsets.

Invariants: after each record, no waiting record is due. ``earliest:<store>`` is not later than the
first of them; -1: it is not known. ``sent:<store>`` is the timestamp of the last forwarded record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.contracts.drops import DropReason
from logstate.contracts.processing import StreamProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, late_edge
from logstate.topology.operators.streams.idle_clock import Waiting, advance_when_idle
from logstate.topology.operators.streams.late_records import late_output

#: due records that are read before the first of them is forwarded
_READ_AHEAD = 100


class SortByTimeNode(ProcessorNode):
    """``store`` has rows of :mod:`waiting_record`, with headers."""

    passes_on = True

    grace_ms: int
    store: StoreSpec
    idle_ms: int | None = None

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.idle_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        name, grace = self.store.name, self.grace_ms
        observed, sent = task.time_cell(f"observed:{name}"), task.time_cell(f"sent:{name}")
        waiting = WaitingRecords(task, self.store, sent)
        forward_due = late_edge(task, name, forward)
        drop_late = task.dropper(self.name, DropReason.LATE)
        emit_late = late_output(self, children, DropReason.LATE)
        earliest = waiting.earliest

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            late_ms = sent.time - timestamp
            if late_ms > 0:
                if emit_late is None:
                    drop_late(late_ms)
                else:
                    emit_late(key, value, timestamp, headers, None, late_ms)
                return
            if timestamp > observed.time:
                observed.time = timestamp
            until = observed.time - grace
            if timestamp <= until < earliest.time:
                sent.time = timestamp
                forward(key, value, timestamp, headers)
                return
            task.timestamp, task.headers = timestamp, headers
            waiting.add(key, value, timestamp, headers)
            if earliest.time <= until:
                waiting.forward_until(until, forward_due)

        due = Waiting(
            lambda: (timestamp + grace for timestamp in waiting.times()),
            lambda limit: waiting.last_due(limit, grace),
            lambda time: waiting.forward_until(time - grace, forward_due),
        )
        idle_ms = self.close_on_idle_ms
        advance_when_idle(task, name, observed, idle_ms, due, node=self.name)
        return process


class WaitingRecords:
    """The records of one task that wait."""

    def __init__(self, task: TaskContext, spec: StoreSpec, sent: TimeCell) -> None:
        self._task = task
        self._store = task.store(spec.name)
        self._sent = sent
        self._number = task.time_cell(f"sequence:{spec.name}")
        self.earliest = task.time_cell(f"earliest:{spec.name}")

    def add(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Let the current record wait."""
        task, number = self._task, self._number
        if number.time < 0:  # a start without clocks: rows may have numbers already
            number.time = max((row_key[1] for row_key, _ in self._store.all()), default=0)
        number.time += 1
        record = value, task.topic, task.partition, task.offset
        self._store.put((timestamp, number.time, key), (record, timestamp, headers))
        self.earliest.time = min(self.earliest.time, timestamp)

    def times(self) -> Iterator[int]:
        """Yield the timestamps of the waiting records, in order."""
        return (row_key[0] for row_key, _ in self._store.all())

    def last_due(self, limit: int, grace_ms: int) -> int | None:
        """Return the last stream time up to ``limit`` at which a record is due."""
        due = takewhile(lambda timestamp: timestamp + grace_ms <= limit, self.times())
        last = max(due, default=None)
        return None if last is None else last + grace_ms

    def forward_until(self, until: int, forward: StreamProcess) -> None:
        """Delete and forward the records that are not younger, at the place that they came from."""
        task, put = self._task, self._store.put
        place = task.topic, task.partition, task.offset
        is_done = False
        while not is_done:
            self.earliest.time, is_done = MAX_TIME_MS, True
            rows: list[Any] = []  # the scan ends before the first row is deleted
            for row in self._store.all():
                if row[0][0] > until or len(rows) == _READ_AHEAD:
                    self.earliest.time, is_done = row[0][0], row[0][0] > until
                    break
                rows.append(row)
            for row_key, (record, _, headers) in rows:
                timestamp, _, key = row_key
                value, task.topic, task.partition, task.offset = record
                task.timestamp, task.headers = timestamp, headers
                put(row_key, None)
                self._sent.time = timestamp
                forward(key, value, timestamp, headers)
        task.topic, task.partition, task.offset = place
