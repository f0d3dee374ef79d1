"""The node in front of each side of a stream-stream join: it keeps the side's records.

A record is forwarded first, so that the join looks for partners, and put into the side's window
store afterwards: in a self-join over two stores a record meets itself exactly once.

Records with a null key are not kept, since they match nothing. Null values ARE put: they are logged
and use up a sequence number, but no row comes of them, as in Kafka Streams.

With ``late`` a record is neither kept nor joined, but emitted as a late record, if it could miss a
partner: the other side has passed its window and the grace, or its own side keeps records of that
time no longer. So of two records that match, the join joins both or one is late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.joins.stream_join import partners_in
from logstate.topology.operators.streams.late_records import EmitLate, late_output


class StreamJoinWindowNode(ProcessorNode):
    """Keeps one side's records for as long as the join may need them."""

    store: StoreSpec
    #: whether the other side gets the same objects: a stream that is joined with itself
    is_shared: bool = field(default=False, init=False)
    #: of late records: the windows of the join, and the store of the other side
    windows: JoinWindows | None = None
    other_store: str | None = None
    is_left_side: bool = True
    #: the stream is joined with itself over this one store
    is_self_join: bool = field(default=False, init=False)

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        process = self._compile_keeping(task, forward)
        emit_late = late_output(self, children, DropReason.LATE)
        return process if emit_late is None else self._compile_late(task, process, emit_late)

    def _compile_late(self, task: TaskContext, process: Process, emit_late: EmitLate) -> Process:
        """Emit records that could miss partners, and neither join nor keep them.

        Both stores hide the record at the limit, so a record there is late, too.
        """
        assert self.windows is not None
        assert self.other_store is not None
        keep: Callable[..., None] = process
        before, after = self.windows.before_ms, self.windows.after_ms
        if not self.is_left_side:
            before, after = after, before
        back_ms = max(before, after) if self.is_self_join else before
        _, others, reach, note_late = partners_in(task, self.other_store, back_ms=back_ms)
        own = task.store(self.store.name).segments
        own_clock, retention = own.cell, own.retention_ms

        def process_late(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            late_ms = 1 + max(others.time - reach, own_clock.time - retention) - timestamp
            if late_ms > 0 and key is not None and value is not None:
                note_late()
                missed = Windowed(key, max(0, timestamp - before), max(0, timestamp + after))
                emit_late(key, value, timestamp, headers, missed, late_ms)
                return
            keep(key, value, timestamp, headers)

        return process_late

    def _compile_keeping(self, task: TaskContext, forward: Forward) -> Process:
        store = task.store(self.store.name)
        put = store.put
        if not self.store.value.immutable:
            return self._compile_encoding(task, forward, store)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                # The store logs with these, and operators below may have changed them.
                task.timestamp = timestamp
                task.headers = headers
                put(key, value, timestamp)

        return process

    def _compile_encoding(self, task: TaskContext, forward: Forward, store: Any) -> Process:
        """Encode the value before the joiner gets it, because the joiner may change it."""
        encode, put_encoded = store.encoded, store.put_encoded
        copied = store.copied if self.is_shared else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                forward(key, value, timestamp, headers)
                return
            task.timestamp = timestamp
            task.headers = headers
            encoded = encode(value)
            if copied is not None and value is not None:
                value = copied(encoded.logged_value)
            forward(key, value, timestamp, headers)
            put_encoded(key, encoded, timestamp)

        return process
