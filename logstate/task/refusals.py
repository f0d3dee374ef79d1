"""Results that brokers refused: what a handler decided, until the replay gets there.

What a broker refuses is not known before the commit. The worker finds the record, or the scheduled
callback, that it came of (:mod:`logstate.worker.poison_record`); here the handler is asked about
it, and its answer waits for the replay, which passes over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from logstate.contracts.errors import ProductionError
from logstate.contracts.records import FetchedRecord, RecordMetadata, TopicPartition
from logstate.task.decisions import Decisions, where
from logstate.task.error_handlers import Action, Decision
from logstate.task.record_errors import refused, schedule_refused

if TYPE_CHECKING:
    from logstate.task.task import Task

#: a record, or a schedule by its name
Source: TypeAlias = "RecordMetadata | str"


class Refusals:
    """The decisions about one task's refused results."""

    def __init__(self, task: Task, decisions: Decisions) -> None:
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

    def of_record(self, source: RecordMetadata, error: ProductionError) -> None:
        """The results of this record, alone in its transaction, were refused.

        Returns where the replay is to pass over it, or to try it again; raises ProductionError
        otherwise.
        """
        record, final = self._task.fetched, refused(source, self._task.task_id, error)
        if record is None or where(record) != source:
            raise final from error  # a dead letter: that of one that does not decode
        self._decide(source, record, error, final)

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
