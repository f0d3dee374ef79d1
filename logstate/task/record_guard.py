"""Undo one record: the part of a task that applies a handler's decision to failed records.

With a handler other than ``fail`` each record, and each scheduled callback, runs under a journal:
stores, clocks, buffered results and schedules record their previous state, outputs their length. A
successful record drops the journal; a failed one is rolled back and then skipped, sent to the dead
letter topic, or retried later. Without a handler none of this is on the hot path.

Decisions about results that brokers refused (:mod:`logstate.task.handler_outcomes`) are applied
here, when the replay reaches their record or schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from logstate.contracts.errors import (
    ConfigError,
    ProductionError,
    RecordError,
    RefusedError,
)
from logstate.contracts.processing import StreamProcess
from logstate.contracts.records import FetchedRecord, RecordMetadata, TopicPartition
from logstate.task.error_handlers import Action, ErrorHandlers, fail
from logstate.task.handler_outcomes import HandlerOutcomes, RefusedResults, Source, where
from logstate.task.late_results import LateResultFailed, LateResults, SkipRecord
from logstate.task.punctuation import Schedules
from logstate.task.record_errors import (
    commit_buffered_failed,
    failed,
    is_not_of_record,
    not_encoded,
    punctuation_failed,
)
from logstate.task.task_progress import RetryLater, TaskProgress
from logstate.topology.graph.origin import blame_for, maker_of


@dataclass(frozen=True)
class Undo:
    """The state of a task before a record; its stores keep their own journals."""

    outputs: int
    schedules: Schedules
    #: numbers of skipped and dead-lettered records
    skipped: int
    dead_letters: int


class RecordGuard:
    """Applies the handlers to the records of one task."""

    def __init__(self, task: TaskProgress, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers
        self._decisions = HandlerOutcomes(task, handlers)
        #: the source being retried, and its failures so far
        self._retried: Hashable = None
        self._attempts = 0
        #: set while a record or a callback is processed under a journal
        self._undo: Undo | None = None
        self.refusals = RefusedResults(task, self._decisions)
        self.late_results = LateResults(task, self._decisions, self._asks_about)

    # ------------------------------------------------------------------ records

    @property
    def guards_processing(self) -> bool:
        """True if ``guarded`` wraps the process."""
        return self._handlers.guards_processing

    @property
    def skips_failed(self) -> bool:
        """True if a record may be skipped when a user's function raises for it."""
        return self._handlers.processing is not fail

    def guarded(self, process: StreamProcess) -> StreamProcess:
        """Run ``process`` under a journal; returns it unchanged if no handler needs one."""
        if not self._handlers.guards_processing:
            return process

        def guarded_process(key: object, value: object, timestamp: int, headers: object) -> None:
            while is_to_be_repeated(key, value, timestamp, headers):
                pass

        def is_to_be_repeated(key: object, value: object, timestamp: int, headers: object) -> bool:
            if self.refusals and self._passes_over_refused():
                return False
            self._begin_recording()
            outputs = len(self._task.outputs)
            try:
                process(key, value, timestamp, headers)  # type: ignore[arg-type]
            except SkipRecord as over:
                self._end_recording(rollback=True)
                self._decisions.carry_out(over.decision, over.failed)
            except LateResultFailed as late:
                self._end_recording(rollback=True)
                self._decide(late)
                self._return_to_record(timestamp, headers)
                return True
            except Exception as exc:  # user functions may raise anything
                if _is_final(exc):
                    self._end_recording(rollback=True)
                    raise
                self._processing_failed(exc)
            else:
                self._end_recording(rollback=False)
                self._retried = None
                record = self._task.fetched
                if self.refusals and record is not None:
                    self.refusals.drop_results(where(record), record, outputs)
            return False

        return guarded_process

    def _asks_about(self, exc: Exception) -> bool:
        """Return True if a handler decides about a failure below a result that was due."""
        is_open = self._undo is not None and self._handlers.processing is not fail
        return is_open and not _is_final(exc, ConfigError)

    def _decide(self, late: LateResultFailed) -> None:
        """Ask the handler about a due row, unless that was done; raise if the row is not
        skipped.
        """
        described, decision = late.failed, late.decision
        if decision is None:
            described = replace(described, attempt=self._attempt(late.row))
            decision = self._decisions.ask(described)
        if decision.action is Action.RETRY:
            raise RetryLater(self._task.monotonic_ms() + decision.delay_ms)
        self._retried = None
        if decision.action is Action.FAIL:
            raise described.error from described.error.__cause__
        self.late_results.decided(late.row, decision, described)

    def _return_to_record(self, timestamp: int, headers: Any) -> None:
        """Restore the position of the current record, which the operator had replaced by the
        row's.
        """
        task, record = self._task, self._task.fetched
        assert record is not None
        task.topic, task.partition, task.offset = where(record)
        task.timestamp, task.headers = timestamp, headers

    def skips(self, record: FetchedRecord, error: Exception, node: str) -> bool:
        """Return True if an undecodable record is skipped or dead-lettered; False means fail."""
        described = self._decisions.described(record, error, "deserialization", node)
        decision = self._decisions.ask(described)
        if decision.action is Action.RETRY:
            raise ConfigError(
                "a deserialization handler returned RETRY, but the bytes of a record do not change:"
                " return FAIL, SKIP or DEAD_LETTER"
            )
        return self._decisions.carry_out(decision, described)

    def skips_untimed(self, record: FetchedRecord, error: RecordError) -> bool:
        """Return True if a record without a time is skipped or dead-lettered; nothing must be
        undone.

        Returns False if the handler retries it later; raises the error for FAIL.
        """
        source = where(record)
        attempt = self._attempt(source)
        described = self._decisions.described(
            record, error, "processing", error.node, attempt=attempt
        )
        decision = self._decisions.ask(described)
        if decision.action is Action.RETRY:
            self._task.blocked_until_ms = self._task.monotonic_ms() + decision.delay_ms
            return False
        self._retried = None
        if not self._decisions.carry_out(decision, described):
            raise error from error.__cause__
        return True

    def _processing_failed(self, exc: Exception) -> None:
        task = self._task
        record = task.fetched
        assert record is not None
        source = where(record)
        partition = TopicPartition(source.topic, source.partition)
        error = (
            exc
            if isinstance(exc, RecordError) and exc.topic is not None
            else failed(
                partition,
                source.offset,
                task.task_id,
                blame_for(exc, task.sub_topologies),
                exc,
            )
        )
        error.__cause__ = exc.__cause__ if error is exc else exc
        self._answer(error, "processing", record, source)

    def _answer(
        self, error: RecordError, stage: str, record: FetchedRecord | None, retried: Source
    ) -> None:
        """Ask the handler about the current failure, undo it, and carry out the decision."""
        task = self._task
        described = self._decisions.described(
            record, error, stage, error.node, attempt=self._attempt(retried)
        )
        try:
            decision = self._decisions.ask(described)
        except Exception:
            self._end_recording(rollback=True)
            raise
        keeps = self._handlers.on_skip == "keep"
        self._end_recording(
            rollback=not (keeps and decision.action in (Action.SKIP, Action.DEAD_LETTER)),
        )
        if decision.action is Action.RETRY:
            raise RetryLater(task.monotonic_ms() + decision.delay_ms)
        self._retried = None
        if not self._decisions.carry_out(decision, described, retried if record is None else None):
            raise error from error.__cause__

    def _attempt(self, retried: Hashable) -> int:
        if self._retried != retried:
            self._retried, self._attempts = retried, 0
        self._attempts += 1
        return self._attempts

    def _begin_recording(self) -> None:
        """Record the state that the next record or callback may change."""
        task = self._task
        task.state.begin_journal()
        task.drops.begin_journal()
        for held in task.commit_buffered:
            held.begin_journal()
        self._undo = Undo(
            len(task.outputs),
            task.punctuations.schedules(),
            task.skipped_total,
            task.dead_letters_total,
        )

    def _end_recording(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` undo everything since ``_begin_recording``."""
        task, undo = self._task, self._undo
        assert undo is not None, "_begin() comes first"
        self._undo = None
        task.state.end_journal(rollback=rollback)
        task.drops.end_journal(rollback=rollback)
        for held in task.commit_buffered:
            held.end_journal(rollback=rollback)
        if rollback:
            del task.outputs[undo.outputs :]
            task.punctuations.go_back_to(undo.schedules)
            task.skipped_total, task.dead_letters_total = undo.skipped, undo.dead_letters
        else:
            self.late_results.forget_decided()

    # ------------------------------------------------------------------ schedules

    def guarded_callback(
        self, schedule: str, callback: Callable[[int], None]
    ) -> Callable[..., None]:
        """Wrap a scheduled callback so that its failures are handled like those of records."""
        guards = self._handlers.guards_processing

        def punctuate(now: int) -> None:
            while is_to_be_repeated(now):
                pass

        def is_to_be_repeated(now: int) -> bool:
            if self._handlers.on_skip == "rollback" and self.refusals.has(schedule):
                self.refusals.carry_out(schedule, None)
                return False
            outputs = len(self._task.outputs)
            if guards:
                self._begin_recording()
            try:
                callback(now)
            except SkipRecord as over:
                self._end_recording(rollback=True)
                self._decisions.carry_out(over.decision, over.failed, schedule)
            except LateResultFailed as late:
                self._end_recording(rollback=True)
                self._decide(late)
                task = self._task
                task.topic, task.offset = None, -1
                task.timestamp, task.headers = now, None
                return True
            except Exception as exc:
                if _is_final(exc):
                    if guards:
                        self._end_recording(rollback=True)
                    raise
                task = self._task
                found = blame_for(exc, task.sub_topologies)
                error = punctuation_failed(schedule, now, task.task_id, found, exc)
                error.__cause__ = exc
                if not guards:
                    raise error from exc
                self._answer(error, "punctuation", None, schedule)
            else:
                if guards:
                    self._end_recording(rollback=False)
                    self._retried = None
                    self.refusals.drop_results(schedule, None, outputs)
            return False

        return punctuate

    # ------------------------------------------------------------------ results

    def not_encoded(self, part: str, sink: str, topic: str, exc: Exception) -> None:
        """Handle a result that does not encode; returns if it is dropped, raises otherwise."""
        task = self._task
        # Those of the result itself, if it was buffered for the commit.
        record, source = None, None
        if task.topic is not None:
            record = task.fetched
            source = RecordMetadata(task.topic, task.partition, task.offset)
        maker = maker_of(sink, task.sub_topologies)
        error = not_encoded(part, sink, topic, task.task_id, source, maker, exc)
        error.__cause__ = exc
        if self._handlers.production is fail:
            raise error from exc
        if self._undo is None and self._handlers.on_skip == "rollback":
            # For a result buffered for the commit, only a replay can roll back its record.
            raise RefusedError(str(error), task=str(task.task_id), node=sink) from exc
        described = self._decisions.described(record, error, "production", sink, sent_to=topic)
        decision = self._decisions.ask(described)
        if decision.action not in (Action.SKIP, Action.DEAD_LETTER):
            raise error from exc  # RETRY too, as in Kafka Streams: the value does not change
        if self._handlers.on_skip == "rollback":
            raise SkipRecord(decision, described)
        self._decisions.carry_out(decision, described)

    def commit_buffered_failed(self, exc: Exception, record: FetchedRecord | None) -> None:
        """Handle a failure below a result that was buffered for the commit; ``record``: its last.

        Returns if only this result is dropped. Rolling its record back takes a replay: the worker
        finds the record like one whose results the brokers refuse, and the handler is called then.
        So the results are the same as if every update were emitted.
        """
        if _is_final(exc, ConfigError):
            raise exc
        task = self._task
        place = RecordMetadata(task.topic or "", task.partition, task.offset)
        found = blame_for(exc, task.sub_topologies)
        error = commit_buffered_failed(place if task.topic else None, task.task_id, found, exc)
        error.__cause__ = exc
        if self._handlers.processing is fail:
            raise error from exc
        if self._handlers.on_skip == "rollback":
            raise RefusedError(str(error), task=str(task.task_id), node=found.node) from error
        described = self._decisions.described(record, error, "processing", found.node)
        decision = self._decisions.ask(described)
        if decision.action not in (Action.SKIP, Action.DEAD_LETTER):
            raise error from exc  # RETRY too: a commit does not wait
        self._decisions.carry_out(decision, described)

    def _passes_over_refused(self) -> bool:
        """Return True if the current record was refused before and is skipped completely."""
        record = self._task.fetched
        assert record is not None
        source = where(record)
        if self._handlers.on_skip == "keep" or not self.refusals.has(source):
            return False
        self.refusals.carry_out(source, record)
        return True


def _is_final(error: Exception, *others: type[Exception]) -> bool:
    """Return True for errors that are raised unchanged: not a record's fault, or decided
    already.
    """
    return is_not_of_record(error) or isinstance(error, (ProductionError, *others))
