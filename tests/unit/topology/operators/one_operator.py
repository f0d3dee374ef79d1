"""One operator over real stores: a task context for tests, without driver, topics or plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.contracts.clock import ManualClock
from logstate.contracts.drops import Drop, DropReason
from logstate.contracts.open_rows import LookAtOpen
from logstate.contracts.processing import DEFAULT_EMIT_INTERVALS, CommitBuffered, TimeCell
from logstate.contracts.records import FetchedRecord, Headers, TaskId
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import ProcessorNode


class OneOperator:
    """A compiled node; ``forwarded`` collects its output edge's arguments.

    Implements `logstate.contracts.processing.TaskContext` as far as operators of tables and windows
    use it.
    """

    def __init__(self, node: ProcessorNode, *specs: StoreSpec, wall_clock_ms: int = 0) -> None:
        self.application_id = "app"
        self.task_id = TaskId(0, 0)
        self.timestamp = -1
        self.headers: Headers = None
        self.topic: str | None = "in"
        self.partition = 0
        self.offset = -1
        self.fetched: FetchedRecord | None = None
        self.stream_time = -1
        self.emit_intervals = DEFAULT_EMIT_INTERVALS
        self.clock = ManualClock(wall_clock_ms)
        self.traces = None
        self.dropped: Counter[str] = Counter()
        self.late_joins: Counter[str] = Counter()
        self.expired_results: Counter[str] = Counter()
        self.forwarded: list[tuple[Any, ...]] = []
        self.forwarded_from: list[tuple[str | None, int, int]] = []
        self.changelogs: dict[str, list[LoggedWrite]] = {}
        self.committed_clocks: Mapping[str, int] = {}
        self.committed_offset = -1
        self.commit_buffered: list[CommitBuffered] = []
        self.looks_at_open: list[LookAtOpen] = []
        # Stores ask for their clocks while the state that keeps clocks is being built.
        self.state = TaskState.__new__(TaskState)
        self.state.__init__(  # type: ignore[misc]
            (*node.own_stores(), *specs), self, logs_every_write=True, publishes_views=False
        )
        self.process: Callable[..., None] = node.compile(self, self._forward, {})

    def pipe(
        self, key: Any, value: Any, timestamp: int, headers: Headers = None
    ) -> list[tuple[Any, ...]]:
        """Process one stream record; returns what it forwarded."""
        self._enter(timestamp, headers)
        self.process(key, value, timestamp, headers)
        return self.take()

    def update(
        self, key: Any, new: Any, old: Any, timestamp: int, headers: Headers = None
    ) -> list[tuple[Any, ...]]:
        """Process one table update; returns what it forwarded."""
        self._enter(timestamp, headers)
        self.process(key, new, old, timestamp, headers, True)
        return self.take()

    def take(self) -> list[tuple[Any, ...]]:
        forwarded, self.forwarded = self.forwarded, []
        return forwarded

    def commit(self) -> dict[str, Sequence[Any]]:
        """Emit what is held back and commit; returns what each store logs."""
        while any(held.emit() for held in reversed(self.commit_buffered)):
            pass
        changes = self.state.freeze()
        self.state.committed(changes, {})
        self.committed_offset, self.committed_clocks = self.offset, changes.clocks
        logged: dict[str, Sequence[Any]] = {
            name: [LoggedWrite._make(write) for write in writes]
            for name, writes in changes.writes.items()
            if writes
        }
        for name, writes in logged.items():
            self.changelogs.setdefault(name, []).extend(writes)
        return logged

    def successor(self, node: ProcessorNode) -> OneOperator:
        """What another instance makes of the last commit: its changelogs, clocks and offset."""
        new = OneOperator(node, wall_clock_ms=self.clock.wall_clock_ms())
        for name, records in self.changelogs.items():
            new.state.restore(name, records, len(records))
            new.changelogs[name] = list(records)
        new.state.set_clocks(self.committed_clocks)
        new.offset = new.committed_offset = self.committed_offset
        new.committed_clocks = self.committed_clocks
        return new

    def discard(self) -> None:
        for held in self.commit_buffered:
            held.discard()
        self.state.discard()

    def begin_journal(self) -> None:
        self.state.begin_journal()
        for held in self.commit_buffered:
            held.begin_journal()

    def end_journal(self, *, rollback: bool) -> None:
        self.state.end_journal(rollback=rollback)
        for held in self.commit_buffered:
            held.end_journal(rollback=rollback)

    # ------------------------------------------------------------------ TaskContext

    def wall_clock_ms(self) -> int:
        return self.clock.wall_clock_ms()

    def store(self, name: str) -> Any:
        return self.state.stores[name]

    def time_cell(self, name: str) -> TimeCell:
        return self.state.time_cell(name)

    def dropper(self, node: str, reason: DropReason) -> Drop:
        def drop(late_ms: int = 0) -> None:
            self.dropped[reason] += 1

        return drop

    def store_dropper(self, store: str) -> Drop:
        return self.dropper(store, DropReason.EXPIRED)

    def join_late(self, store: str, count: int = 1) -> None:
        self.late_joins[store] += count

    def results_expired(self, store: StoreSpec, count: int) -> None:
        self.expired_results[store.name] += count

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return f"app-{name}" if is_internal else name

    def show_open(self, node: str, look: LookAtOpen) -> None:
        self.looks_at_open.append(look)

    def before_commit(self, held: CommitBuffered) -> None:
        self.commit_buffered.append(held)

    def _enter(self, timestamp: int, headers: Headers) -> None:
        self.offset += 1
        self.timestamp, self.headers = timestamp, headers
        self.stream_time = max(self.stream_time, timestamp)

    def _forward(self, *edge: Any) -> None:
        self.forwarded.append(edge)
        self.forwarded_from.append((self.topic, self.partition, self.offset))
