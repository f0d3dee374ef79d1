"""Asking the handlers of a task, and doing what they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstate.contracts.errors import ConfigError
from logstate.contracts.records import FetchedRecord, RecordMetadata
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter_record,
)

if TYPE_CHECKING:
    from logstate.task.task import Task


class Decisions:
    """The handlers of one task. Everything that is passed over is counted."""

    def __init__(self, task: Task, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers

    def described(
        self,
        record: FetchedRecord | None,
        error: Exception,
        stage: str,
        node: str | None,
        *,
        attempt: int = 1,
        sent_to: str | None = None,
    ) -> FailedRecord:
        """What a handler is told; a record of None is a schedule."""
        if record is None:
            return FailedRecord(
                None,
                None,
                None,
                self._task.timestamp,
                None,
                stage,
                str(self._task.task_id),
                node,
                attempt,
                error,
                sent_to,
            )
        return FailedRecord(
            where(record),
            record.key(),
            record.value(),
            record.timestamp()[1],
            record.headers(),
            stage,
            str(self._task.task_id),
            node,
            attempt,
            error,
            sent_to,
        )

    def ask(self, failed: FailedRecord) -> Decision:
        """The answer of the handler for this stage."""
        handlers = self._handlers
        if failed.stage == "deserialization":
            return handlers.deserialization(failed)
        if failed.stage == "production":
            return handlers.production(failed)
        return handlers.processing(failed)

    def carry_out(self, decision: Decision, failed: FailedRecord) -> bool:
        """Skip or dead-letter; False for FAIL."""
        task = self._task
        if decision.action is Action.SKIP:
            task.skipped_total += 1
            return True
        if decision.action is Action.DEAD_LETTER:
            topic = self._handlers.dead_letter_topic
            if topic is None:
                raise ConfigError(
                    "a handler answered DEAD_LETTER and no dead letter topic is configured; give"
                    " ErrorHandlers(dead_letter_topic=...)"
                ) from failed.error
            task.send(dead_letter_record(topic, failed))
            task.dead_letters_total += 1
            return True
        return False


def where(record: FetchedRecord) -> RecordMetadata:
    """The place of a record in its log."""
    return RecordMetadata(record.topic() or "", record.partition() or 0, record.offset() or 0)
