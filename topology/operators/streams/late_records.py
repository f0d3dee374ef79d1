"""Late records as a stream: where an operator has ``late``, it emits what it would drop as late.

The operator calls a separate child for it, the node of the late stream, which gets no results.
It is a part of the task like every node: a late record and its results are committed with
the offset of its input record, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from logstate.contracts.drops import Drop, DropReason
from logstate.contracts.late_record import LateRecord
from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.topology.graph.nodes import Children, Forward, ProcessorNode

#: (key, value, timestamp, headers, missed window, by_ms)
EmitLate: TypeAlias = "Callable[[Any, Any, int, Headers, Windowed[Any] | None, int], None]"
#: (key, value, timestamp, headers)
EmitTooOld: TypeAlias = "Callable[[Any, Any, int, Headers], None]"


class LateRecordsNode(ProcessorNode):
    """The head of a late stream. Counts its records and forwards them, :class:`LateRecord` values
    under the key, timestamp and headers of the record.
    """

    passes_on = True
    takes_deltas = True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> StreamProcess:
        count = task.late_counter(self.name)

        def process(key: Any, late: LateRecord[Any, Any], timestamp: int, headers: Headers) -> None:
            count(late.by_ms)
            forward(key, late, timestamp, headers)

        return process


def late_output(node: ProcessorNode, children: Children, reason: DropReason) -> EmitLate | None:
    """Return how a node emits a late record; None if it drops them."""
    if node.late is None:
        return None
    process: Callable[..., None] = children[node.late]
    name = node.name

    def emit(
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        window: Windowed[Any] | None,
        by_ms: int,
    ) -> None:
        own = None if headers is None else list(headers)  # user code may change its list
        late = LateRecord(key, value, own, timestamp, window, by_ms, reason, name)
        process(key, late, timestamp, headers)

    return emit


def expired_output(
    node: ProcessorNode, children: Children
) -> tuple[Drop, EmitTooOld] | tuple[None, None]:
    """Return how a node emits a record that is older than the history of its store.

    The store calls the first function with the lateness instead of dropping the version; the node
    calls the second one after that. None: the store drops it.
    """
    emit = late_output(node, children, DropReason.EXPIRED)
    if emit is None:
        return None, None
    by_ms = 0

    def too_old(late_ms: int = 0) -> None:
        nonlocal by_ms
        by_ms = late_ms

    def emit_expired(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        emit(key, value, timestamp, headers, None, by_ms)

    return too_old, emit_expired
