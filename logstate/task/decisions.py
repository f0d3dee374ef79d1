"""What the handlers decide: asked about what fails, and done what they answer.

Of a result that brokers refuse nothing is known before the commit. The worker finds the record, or
the scheduled callback, that it came of (:mod:`logstate.worker.poison_record`); the handler is asked
about it here, and its answer waits in :class:`RefusedResults` for the replay, which passes over it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from logstate.contracts.errors import ConfigError, ProductionError
from logstate.contracts.records import FetchedRecord, RecordMetadata, TopicPartition
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter_record,
)
from logstate.task.record_errors import refused, schedule_refused
from logstate.task.task_progress import TaskProgress
from logstate.topology.graph.blame import Blame
from logstate.topology.graph.origin import maker_of, sinks_to

_LOGGER = logging.getLogger(__name__)

#: between two lines about dead letters of a task
_TELL_INTERVAL_MS = 10_000

#: a record, or a schedule by its name
Source: TypeAlias = "RecordMetadata | str"


class Decisions:
    """The handlers of one task. Everything that is passed over is counted."""

    def __init__(self, task: TaskProgress, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers
        #: dead letters since the last that was logged
        self._untold = 0
        self._tell_at_ms = float("-inf")

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
        task = self._task
        return FailedRecord(
            None if record is None else where(record),
            None if record is None else record.key(),
            None if record is None else record.value(),
            task.timestamp if record is None else record.timestamp()[1],
            None if record is None else record.headers(),
            stage,
            str(task.task_id),
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
            self._tell_dead_letter(topic, failed)
            return True
        return False

    def _tell_dead_letter(self, topic: str, failed: FailedRecord) -> None:
        """One line for the first of many: a topic full of them must not fill the disk with logs."""
        self._untold += 1
        now_ms = self._task.monotonic_ms()
        if now_ms < self._tell_at_ms:
            return
        cause = failed.error.__cause__ or failed.error
        _LOGGER.warning(
            "task %s: %s went to the dead letter topic %r: %s failed, %s: %s%s",
            failed.task,
            "a schedule" if failed.source is None else f"the record at {failed.source}",
            topic,
            failed.stage,
            type(cause).__name__,
            cause,
            "" if self._untold == 1 else f" ({self._untold} since this was told last)",
        )
        self._untold, self._tell_at_ms = 0, now_ms + _TELL_INTERVAL_MS


def where(record: FetchedRecord) -> RecordMetadata:
    """The place of a record in its log."""
    return RecordMetadata(record.topic() or "", record.partition() or 0, record.offset() or 0)


class RefusedResults:
    """The decisions about one task's refused results."""

    def __init__(self, task: TaskProgress, decisions: Decisions) -> None:
        self._task = task
        self._decisions = decisions
        self._decided: dict[Source, tuple[Decision, ProductionError]] = {}
        #: how often each was refused, for handlers that try again
        self._attempts: Counter[Source] = Counter()
        #: schedules that were passed over since the last commit
        self._passed_over: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is to be passed over: on the path of every record."""
        return bool(self._decided)

    def of_record(
        self, source: RecordMetadata, error: ProductionError, sent: Mapping[str, int]
    ) -> None:
        """The results of this record, alone in its transaction, were refused.

        ``sent``: the topics of its results, with the bytes of the largest in each.
        Returns where the replay is to pass over it, or to try it again; raises ProductionError
        otherwise.
        """
        task = self._task
        record = task.fetched
        final = refused(source, task.task_id, sent, self._maker(sent), error)
        if record is None or where(record) != source:
            raise final from error  # a dead letter: that of one that does not decode
        self._decide(source, record, error, final)

    def _maker(self, topics: Iterable[str]) -> Blame:
        """Who made what was sent to the topics, if that is clear."""
        task = self._task
        within = task.sub_topologies
        sinks = [sink for topic in topics for sink in sinks_to(topic, within, task.topic_name)]
        return maker_of(sinks[0], within) if len(sinks) == 1 else Blame(None, None)

    def of_schedule(self, name: str, error: ProductionError) -> None:
        """What one call of this schedule sent, alone in its transaction, was refused.

        Returns and raises as ``of_record``.
        """
        self._decide(name, None, error, schedule_refused(name, self._task.task_id, error))

    def _decide(
        self,
        source: Source,
        record: FetchedRecord | None,
        error: ProductionError,
        final: ProductionError,
    ) -> None:
        final.__cause__ = error
        if source in self._decided:
            raise final from error  # its dead letter is refused too
        self._attempts[source] += 1
        told = self._decisions.described(
            record,
            error,
            "production",
            error.node,
            attempt=self._attempts[source],
            sent_to=error.topic,
        )
        decision = self._decisions.ask(told)
        if decision.action is Action.RETRY:
            self._task.blocked_until_ms = self._task.monotonic_ms() + decision.delay_ms
        elif decision.action is Action.FAIL:
            raise final from error
        else:
            self._decided[source] = decision, error

    def has(self, source: Source) -> bool:
        """Whether this one is to be passed over."""
        return source in self._decided

    def carry_out(self, source: Source, record: FetchedRecord | None) -> None:
        """Skip or dead-letter it, as was decided."""
        decision, error = self._decided[source]
        told = self._decisions.described(
            record, error, "production", error.node, sent_to=error.topic
        )
        self._decisions.carry_out(decision, told)
        if isinstance(source, str):
            self._passed_over.add(source)

    def leave_out(self, source: Source, record: FetchedRecord | None, outputs: int) -> None:
        """What is to be passed over keeps the state that it wrote: only what it sent goes.

        ``outputs``: how many there were before it.
        """
        if self.has(source):
            del self._task.outputs[outputs:]
            self.carry_out(source, record)

    def discard(self) -> None:
        """What was passed over since the last commit will come again."""
        self._passed_over.clear()

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """What lies before these offsets will not come again, nor will the calls passed over."""
        for source in [*self._decided, *self._attempts]:
            if self._is_past(source, offsets):
                self._decided.pop(source, None)
                self._attempts.pop(source, None)
        self._passed_over.clear()

    def _is_past(self, source: Source, offsets: Mapping[TopicPartition, int]) -> bool:
        if isinstance(source, str):
            return source in self._passed_over
        return offsets.get(TopicPartition(source.topic, source.partition), 0) > source.offset
