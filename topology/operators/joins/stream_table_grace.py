"""Stream-table join with grace: stream records wait, so that late table rows are still found.

A stream record waits in a buffer until stream time, that of the records put into the buffer, has
passed its timestamp by the grace; then it meets the row that the table, which must be versioned,
had at the record's own timestamp (KIP-923).

Semantics, exactly Kafka Streams' (`KStreamKTableJoinProcessor`):

- order: by timestamp, then key bytes, then arrival; results have the stream record's timestamp and
  headers, and the place it came from. Nothing leaves the buffer until a later stream record comes,
  except with ``close_on_idle``, which advances its stream time while the inputs are idle.
- late: a record older than stream time - grace does not wait, it is joined at once. One exactly
  that old enters the buffer and leaves it again, with all others whose time has come. With ``late``
  an older one is emitted as a late record and not joined.
- a row older than the table's history cannot be found: keep the history at least as long as the
  grace.
- null values are dropped and counted; null keys too in an inner join. In a left join a null key
  meets no row and is forwarded at once, without waiting. (Kafka Streams fails on it; this is what
  the join without grace does.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from logstate.contracts.drops import DropReason, null_dropper
from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import (
    Children,
    Forward,
    Process,
    ProcessorNode,
    TableNode,
    late_edge,
)
from logstate.topology.operators.joins.stream_table_join import tolerant
from logstate.topology.operators.streams.idle_clock import Waiting, advance_when_idle
from logstate.topology.operators.streams.late_records import late_output


class StreamTableGraceJoinNode(ProcessorNode):
    """Inner or left join by the record's own key. ``joiner(key, left, right)``."""

    table: TableNode
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool
    grace_ms: int
    store: StoreSpec
    idle_ms: int | None = None
    tolerance_ms: int | None = None

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.idle_ms

    def retains_records(self) -> bool:
        return True

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def store_names(self) -> tuple[str, ...]:
        return (self.store.name, *self.table.getter_store_names())

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        buffer = task.store(self.store.name)
        put, forward_expired = buffer.put, buffer.forward_expired
        join = self._compile_join(task, forward)
        join_late = late_edge(task, self.store.name, join)
        is_left = self.is_left
        drop = null_dropper(task.dropper, self.name)
        emit_late = late_output(self, children, DropReason.LATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not is_left):
                drop(key)
                return
            if key is None or not put(key, value, timestamp, headers):
                if emit_late is None or key is None:
                    join(key, value, timestamp, headers)
                else:
                    late_ms = buffer.min_timestamp - 1 - timestamp
                    emit_late(key, value, timestamp, headers, None, late_ms)
                return
            forward_expired(join_late)

        grace, observed, idle_ms = self.grace_ms, buffer.observed, self.close_on_idle_ms

        def close_times() -> Iterator[int]:
            return (ms + grace for ms in buffer.times())

        waiting = Waiting(close_times, buffer.last_due, lambda _: forward_expired(join_late))
        advance_when_idle(task, self.store.name, observed, idle_ms, waiting, node=self.name)
        return process

    def _compile_join(self, task: TaskContext, forward: StreamProcess) -> StreamProcess:
        as_of = self.table.value_getter(task).as_of
        assert as_of is not None, "building the join made sure that the table is versioned"
        as_of = tolerant(as_of, self.tolerance_ms)
        joiner, is_left = self.joiner, self.is_left

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            task.timestamp, task.headers = timestamp, headers
            row = None if key is None else as_of(key, timestamp)
            if row is not None:
                forward(key, joiner(key, value, row[0]), timestamp, headers)
            elif is_left:
                forward(key, joiner(key, value, None), timestamp, headers)

        return join
