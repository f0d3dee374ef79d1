"""Undoing one record: the part of a task that answers failed records with a handler's decision.

How it works. With a processing handler other than ``fail`` each record runs under a journal:
stores, clocks, held back results and schedules remember what they were, outputs remember their
length. A record that goes through drops the journal; one that fails is rolled back and then
skipped, sent to the dead letter topic, or tried again later. Without a handler nothing of this is
on the hot path.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstate.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter_record,
)
from logstate.errors import ConfigError, RecordError, RegistryError, StoreError
from logstate.processing import StreamProcess
from logstate.punctuation import Schedules
from logstate.record_errors import failed
from logstate.records import FetchedRecord, RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from logstate.task import Task


@dataclass(frozen=True)
class Undo:
    """What a task was before a record; its stores remember for themselves."""

    outputs: int
    schedules: Schedules
    dropped: Counter[str]


class RetryLater(Exception):
    """The record is to be tried again when the clock reaches ``at_ms``."""

    def __init__(self, at_ms: float) -> None:
        super().__init__(f"retry at {at_ms}")
        self.at_ms = at_ms


class RecordGuard:
    """Applies the handlers to the records of one task."""

    def __init__(self, task: Task, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers
        #: (partition, offset) being retried and its failures so far
        self._retried: tuple[TopicPartition, int] | None = None
        self._attempts = 0

    def guarded(self, process: StreamProcess) -> StreamProcess:
        """``process`` under a journal; the process itself where no handler needs one."""
        if not self._handlers.guards_processing:
            return process
        task = self._task

        def guarded_process(key: object, value: object, timestamp: int, headers: object) -> None:
            task.begin_record()
            try:
                process(key, value, timestamp, headers)  # type: ignore[arg-type]
            except (RegistryError, StoreError):
                task.end_record(rollback=True)
                raise
            except Exception as exc:  # noqa: BLE001  whatever the user's function raises
                self._processing_failed(exc)
            else:
                task.end_record(rollback=False)
                self._retried = None

        return guarded_process

    def passes_over(self, record: FetchedRecord, error: Exception, node: str) -> bool:
        """Whether an undecodable record is skipped or dead-lettered; False means fail."""
        decision = self._decide(record, error, "deserialization", node)
        if decision.action is Action.RETRY:
            raise ConfigError(
                "a deserialization handler answered RETRY; the bytes of a record do not change:"
                " answer FAIL, SKIP or DEAD_LETTER"
            )
        return self._carry_out(decision, record, error, "deserialization", node)

    def _processing_failed(self, exc: Exception) -> None:
        task = self._task
        keeps = self._handlers.on_skip == "keep"
        record = task.fetched
        assert record is not None
        partition = TopicPartition(record.topic() or "", record.partition() or 0)
        offset = record.offset() or 0
        error = (
            exc
            if isinstance(exc, RecordError) and exc.topic is not None
            else failed(partition, offset, task.task_id, exc)
        )
        error.__cause__ = exc.__cause__ if error is exc else exc
        node = getattr(error, "node", None)
        self._count_attempt(partition, offset)
        try:
            decision = self._decide(record, error, "processing", node)
        except Exception:
            task.end_record(rollback=True)
            raise
        rolls_back = not (keeps and decision.action in (Action.SKIP, Action.DEAD_LETTER))
        task.end_record(rollback=rolls_back)
        if decision.action is Action.RETRY:
            delay_ms = decision.delay.total_seconds() * 1000
            raise RetryLater(task.monotonic_ms() + delay_ms)
        self._retried = None
        if not self._carry_out(decision, record, error, "processing", node):
            raise error from exc

    def _count_attempt(self, partition: TopicPartition, offset: int) -> None:
        if self._retried != (partition, offset):
            self._retried, self._attempts = (partition, offset), 0
        self._attempts += 1

    def _decide(
        self, record: FetchedRecord, error: Exception, stage: str, node: str | None
    ) -> Decision:
        handlers = self._handlers
        handler = handlers.deserialization if stage == "deserialization" else handlers.processing
        return handler(self._described(record, error, stage, node))

    def _described(
        self, record: FetchedRecord, error: Exception, stage: str, node: str | None
    ) -> FailedRecord:
        return FailedRecord(
            RecordMetadata(record.topic() or "", record.partition() or 0, record.offset() or 0),
            record.key(),
            record.value(),
            record.timestamp()[1],
            record.headers(),
            stage,
            str(self._task.task_id),
            node,
            self._attempts if stage == "processing" else 1,
            error,
        )

    def _carry_out(
        self,
        decision: Decision,
        record: FetchedRecord,
        error: Exception,
        stage: str,
        node: str | None,
    ) -> bool:
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
                ) from error
            task.send(dead_letter_record(topic, self._described(record, error, stage, node)))
            task.dead_letters_total += 1
            return True
        return False
