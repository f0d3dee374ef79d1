"""Handle results that were stored by an operator and fail later, when they are due.

Suppressed rows, final results, unmatched rows of joins and timers are due when a later record
arrives. A failure below them is not that record's fault: if the record were skipped instead, the
row would stay in the store and fail again with every following record.

So the record is rolled back, the handler decides about the row, and the record is processed again,
skipping the row. The bytes of the record that produced the row are not available, so its dead
letter has none: only the position, as far as the operator knows it, and the details.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from logstate.contracts.errors import RecordError
from logstate.contracts.records import RecordMetadata, TopicPartition
from logstate.task.error_handlers import Decision, FailedRecord
from logstate.task.handler_outcomes import HandlerOutcomes
from logstate.task.record_errors import failed, punctuation_failed
from logstate.task.task_progress import TaskProgress
from logstate.topology.graph.origin import blame_for

#: operator, key and the rest of its edge, as text: keys need not be hashable
Row: TypeAlias = "tuple[str, str, str]"


class SkipRecord(BaseException):
    """The current record is skipped because of one of its results.

    Not an Exception: a user's ``except Exception`` around forward() must not keep half a record.
    """

    def __init__(self, decision: Decision, failed: FailedRecord) -> None:
        super().__init__(decision.action.value)
        self.decision = decision
        self.failed = failed


class LateResultFailed(BaseException):
    """The current record must be processed again, after a decision about the row."""

    def __init__(self, row: Row, failed: FailedRecord, decision: Decision | None) -> None:
        super().__init__(row)
        self.row = row
        self.failed = failed
        #: for a result that does not encode: the handler has decided already
        self.decision = decision


class LateResults:
    """The skipped rows of one task. ``asks(error)``: whether a handler decides about an error;
    otherwise it remains the error of the current record.
    """

    def __init__(
        self, task: TaskProgress, decisions: HandlerOutcomes, asks: Callable[[Exception], bool]
    ) -> None:
        self._task = task
        self._decisions = decisions
        self._asks = asks
        #: of the current record or scheduled call
        self._decided: dict[Row, tuple[Decision, FailedRecord]] = {}

    def guarded(self, node: str, forward: Callable[..., None]) -> Callable[..., None]:
        """Wrap ``forward`` for an operator's due rows."""

        def forward_row(*edge: Any) -> None:
            if self._decided and (answer := self._decided.get(_row_of(node, edge))) is not None:
                self._decisions.carry_out(*answer)
                return
            try:
                forward(*edge)
            except SkipRecord as over:
                place, error = self._record_metadata(), over.failed.error
                described = replace(over.failed, source=place, key=None, value=None, headers=None)
                raise LateResultFailed(_row_of(node, edge), described, over.decision) from error
            except Exception as exc:
                if not self._asks(exc):
                    raise
                raise LateResultFailed(
                    _row_of(node, edge), self._describe(node, exc), None
                ) from exc

        return forward_row

    def decided(self, row: Row, decision: Decision, failed: FailedRecord) -> None:
        """Skip this row until its record, or its scheduled call, is complete."""
        self._decided[row] = decision, failed

    def forget_decided(self) -> None:
        """The rows were deleted: one that comes later is another one, or comes after an abort."""
        self._decided.clear()

    def _record_metadata(self) -> RecordMetadata | None:
        task = self._task
        return (task.topic and RecordMetadata(task.topic, task.partition, task.offset)) or None

    def _describe(self, node: str, exc: Exception) -> FailedRecord:
        task, place = self._task, self._record_metadata()
        found = blame_for(exc, task.sub_topologies)
        error: RecordError
        if place is None:
            stage = "punctuation"
            error = punctuation_failed(node, task.timestamp, task.task_id, found, exc)
        else:
            stage, where = "processing", TopicPartition(place.topic, place.partition)
            error = failed(where, place.offset, task.task_id, found, exc)
        error.__cause__ = exc
        described = self._decisions.described(None, error, stage, found.node)
        return replace(described, source=place)


def _row_of(node: str, edge: tuple[Any, ...]) -> Row:
    try:
        return node, repr(edge[0]), repr(edge[1:])
    except Exception:  # noqa: BLE001  a user's __repr__
        return node, type(edge[0]).__name__, ""
