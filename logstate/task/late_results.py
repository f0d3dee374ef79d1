"""Results that waited and fail when they are due: answered on their own.

Suppressed rows, final results and unmatched rows of joins leave when a later record comes. What
fails below them is not that record's fault: were it skipped in their place, the row would stay
where it is and fail again at every record that follows.

So the record is rolled back, the handler is asked about the row, and the record is processed again;
the row is skipped when it is met. Where it waits no bytes are kept of the record that made it,
so its dead letter has none: only the place, as far as the operator knows it, and the story.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from logstate.contracts.errors import RecordError
from logstate.contracts.records import RecordMetadata, TopicPartition
from logstate.task.error_handlers import Decision, FailedRecord
from logstate.task.handler_outcomes import HandlerOutcomes
from logstate.task.record_errors import failed
from logstate.task.task_progress import TaskProgress
from logstate.topology.graph.origin import blame_for

#: operator, key and the rest of its edge, as text: keys need not be hashable
Row: TypeAlias = "tuple[str, str, str]"


class SkipRecord(BaseException):
    """The record at hand is skipped because of one of its results.

    Not an Exception: a user's ``except Exception`` around forward() must not keep half a record.
    """

    def __init__(self, decision: Decision, failed: FailedRecord) -> None:
        super().__init__(decision.action.value)
        self.decision = decision
        self.failed = failed


class LateResultFailed(BaseException):
    """The record at hand is to be processed again, once it is known what becomes of the row."""

    def __init__(self, row: Row, told: FailedRecord, decision: Decision | None) -> None:
        super().__init__(row)
        self.row = row
        self.told = told
        #: of a result that does not encode: that was asked already
        self.decision = decision


class LateResults:
    """The rows of one task that are skipped. ``asks(error)``: whether that is for a handler;
    what is not remains the error of the record at hand.
    """

    def __init__(
        self, task: TaskProgress, decisions: HandlerOutcomes, asks: Callable[[Exception], bool]
    ) -> None:
        self._task = task
        self._decisions = decisions
        self._asks = asks
        self._decided: dict[Row, tuple[Decision, FailedRecord]] = {}
        #: those that were decided before the commit under way began
        self._committing: tuple[Row, ...] = ()

    def guarded(self, node: str, forward: Callable[..., None]) -> Callable[..., None]:
        """``forward`` of an operator's rows that are due."""

        def forward_row(*edge: Any) -> None:
            if self._decided and (answer := self._decided.get(_row(node, edge))) is not None:
                self._decisions.carry_out(*answer)
                return
            try:
                forward(*edge)
            except SkipRecord as over:
                place, error = self._place(), over.failed.error
                told = replace(over.failed, source=place, key=None, value=None, headers=None)
                raise LateResultFailed(_row(node, edge), told, over.decision) from error
            except Exception as exc:
                if not self._asks(exc):
                    raise
                raise LateResultFailed(_row(node, edge), self._told(exc), None) from exc

        return forward_row

    def decided(self, row: Row, decision: Decision, told: FailedRecord) -> None:
        """This row is skipped when it is met again."""
        self._decided[row] = decision, told

    def freeze(self) -> None:
        """A commit begins: what is decided from here on belongs to the next."""
        self._committing = tuple(self._decided)

    def committed(self) -> None:
        """What was skipped is gone."""
        for row in self._committing:
            self._decided.pop(row, None)
        self._committing = ()

    def _place(self) -> RecordMetadata | None:
        task = self._task
        return (task.topic and RecordMetadata(task.topic, task.partition, task.offset)) or None

    def _told(self, exc: Exception) -> FailedRecord:
        task, place = self._task, self._place()
        where = TopicPartition(task.topic or "", task.partition)
        found = blame_for(exc, task.sub_topologies)
        error: RecordError = failed(where, task.offset, task.task_id, found, exc)
        error.__cause__ = exc
        told = self._decisions.described(None, error, "processing", found.node)
        return replace(told, source=place)


def _row(node: str, edge: tuple[Any, ...]) -> Row:
    try:
        return node, repr(edge[0]), repr(edge[1:])
    except Exception:  # noqa: BLE001  a user's __repr__
        return node, type(edge[0]).__name__, ""
