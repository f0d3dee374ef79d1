"""Call error handlers, and carry out their decisions.

Before the commit it is unknown which results the brokers refuse. The worker finds the record, or
the scheduled callback, that produced them (:mod:`logstate.worker.poison_record`); the handler is
called here, and its decision is kept in :class:`RefusedResults` for the replay, which skips the
record.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    ConfigError,
    ProcessingError,
    ProductionError,
    RecordError,
)
from logstate.contracts.record_parts import own_copy, shown
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
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.graph.blame import Blame
from logstate.topology.graph.origin import maker_of, sinks_to

_LOGGER = logging.getLogger(__name__)

#: between two log messages about one outcome in a task
_TELL_INTERVAL_MS = 10_000

#: a record, or a schedule by its name
Source: TypeAlias = "RecordMetadata | str"
#: the log message for a dead letter decision in a global store
_NO_LETTER = (
    "is skipped in a global store without a dead letter, because every instance would send"
    " one, at each start"
)


class HandlerOutcomes:
    """The handlers of one task. Skipped and dead-lettered records are counted."""

    def __init__(self, task: TaskProgress, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers
        #: outcome -> count since its last log message, and when the next one may follow
        self._untold: Counter[str] = Counter()
        self._tell_at_ms: dict[str, float] = {}
        #: sources with an uncommitted dead letter
        self._lettered: set[Source] = set()
        #: sources whose dead letters were refused, with the brokers' error
        self._refused: dict[Source, ProductionError] = {}

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
        """Return the argument for a handler; a ``record`` of None means a schedule."""
        task = self._task
        return FailedRecord(
            None if record is None else where(record),
            None if record is None else _part(record.key),
            None if record is None else _part(record.value),
            task.timestamp if record is None else record.timestamp()[1],
            None if record is None else own_copy(_part(record.headers)),
            stage,
            str(task.task_id),
            node,
            attempt,
            error,
            sent_to,
        )

    def ask(self, failed: FailedRecord) -> Decision:
        """Return the decision of the handler for this stage."""
        handlers = self._handlers
        if failed.stage == "deserialization":
            handler, name = handlers.deserialization, "deserialization"
        elif failed.stage == "production":
            handler, name = handlers.production, "production"
        else:
            handler, name = handlers.processing, "processing"
        try:
            decision: object = handler(failed)
        except RecordError:
            raise  # usually the record's own error
        except Exception as exc:
            raise ConfigError(
                f"the {name} handler {function_site(handler)} raised {type(exc).__name__}:"
                f" {text_of(exc)}. It was called for: {text_of(failed.error)}. Correct the handler"
            ) from exc
        if not isinstance(decision, Decision):
            raise ConfigError(
                f"the {name} handler {function_site(handler)} returned {shown(decision)}: it must"
                " return a Decision, such as Decision(Action.SKIP), or the result of skip(record),"
                f" dead_letter(record) or fail(record). It was called for: {text_of(failed.error)}"
            ) from failed.error
        return decision

    def carry_out(
        self, decision: Decision, failed: FailedRecord, source: Source | None = None
    ) -> bool:
        """Skip or dead-letter; return False for FAIL. ``source``: the name of a schedule."""
        task = self._task
        source = source or failed.source
        if decision.action is Action.SKIP:
            task.skipped_total += 1
            self._log_first("is skipped", failed)
            return True
        if decision.action is Action.DEAD_LETTER:
            if not task.sends:
                task.skipped_total += 1
                self._log_first(_NO_LETTER, failed)
                return True
            topic = self._handlers.dead_letter_topic
            if topic is None:
                raise ConfigError(
                    "a handler returned DEAD_LETTER but no dead letter topic is configured; give"
                    " ErrorHandlers(dead_letter_topic=...)"
                ) from failed.error
            if failed.source is not None and failed.source.topic == topic:
                raise ConfigError(
                    f"the record at {failed.source} failed, and its topic is the dead letter topic:"
                    " its dead letter would come back here and fail forever. Give"
                    " ErrorHandlers(dead_letter_topic=...) a topic that the application does not"
                    " read, or let the handler return SKIP or FAIL for this record. The failure:"
                    f" {text_of(failed.error)}"
                ) from failed.error
            refused = None if source is None else self._refused.get(source)
            began = task.began_trace
            trace = began[1] if began is not None and began[0] == failed.source else None
            task.send(dead_letter_record(topic, failed, refused=refused, trace=trace))
            if source is not None:
                self._lettered.add(source)
            task.dead_letters_total += 1
            self._log_first(f"went to the dead letter topic {topic!r}", failed)
            return True
        return False

    def is_letter_refused(self, source: Source, error: ProductionError) -> bool:
        """Return True if the refused result of this source, alone in its transaction, is a dead
        letter.

        Then the replay sends a shorter one: one bad record must not end the application. If that is
        refused too, the record is not the cause: the topic accepts no dead letters.
        """
        if source not in self._lettered or source in self._refused:
            return False
        self._refused[source] = error
        return True

    def discard(self) -> None:
        """Forget uncommitted dead letters; they will be sent again."""
        self._lettered.clear()

    def committed(self, is_past: Callable[[Source], bool]) -> None:
        """Handle a commit; sources for which ``is_past`` is True will not come again."""
        for source in [*self._refused]:
            if source in self._lettered or is_past(source):
                del self._refused[source]
        self._lettered.clear()

    def _log_first(self, what: str, failed: FailedRecord) -> None:
        """Log the first of many: a topic full of bad records must not fill the disk with logs."""
        self._untold[what] += 1
        now_ms = self._task.monotonic_ms()
        if now_ms < self._tell_at_ms.get(what, now_ms):
            return
        cause = failed.error.__cause__ or failed.error
        _LOGGER.warning(
            "task %s: %s %s: %s failed, %s: %s%s",
            failed.task,
            "a schedule" if failed.source is None else f"the record at {failed.source}",
            what,
            failed.stage,
            type(cause).__name__,
            text_of(cause),
            "" if self._untold[what] == 1 else f" ({self._untold[what]} since the last message)",
        )
        self._untold[what], self._tell_at_ms[what] = 0, now_ms + _TELL_INTERVAL_MS


def _part(read: Callable[[], Any]) -> Any:
    """Read a part of a record; return None if the client cannot read it."""
    try:
        return read()
    except Exception:  # noqa: BLE001  the handler's error says so
        return None


def where(record: FetchedRecord) -> RecordMetadata:
    """Return the position of a record in its log."""
    return RecordMetadata(record.topic() or "", record.partition() or 0, record.offset() or 0)


class RefusedResults:
    """The decisions about refused results of one task."""

    def __init__(self, task: TaskProgress, decisions: HandlerOutcomes) -> None:
        self._task = task
        self._decisions = decisions
        self._decided: dict[Source, tuple[Decision, RecordError]] = {}
        #: how often each source was refused, for handlers that retry
        self._attempts: Counter[Source] = Counter()
        #: schedules that were skipped, or succeeded after all, since the last commit began
        self._settled: set[str] = set()
        #: those in the current commit
        self._committing: set[str] = set()

    def __bool__(self) -> bool:
        """True if anything must be skipped; evaluated for each record."""
        return bool(self._decided)

    def of_record(
        self, source: RecordMetadata, error: ProductionError, sent: Mapping[str, int]
    ) -> None:
        """Handle refused results of this record, alone in its transaction.

        ``sent``: the topics of its results, with the bytes of the largest in each. Returns if the
        replay must skip the record or try it again; raises ProductionError otherwise.
        """
        if self._decisions.is_letter_refused(source, error):
            return
        task = self._task
        record = task.fetched
        final = refused(source, task.task_id, sent, self._maker(sent), error)
        if record is None or where(record) != source:
            raise final from error  # the dead letter of a record that does not decode
        self._decide(source, record, error, final)

    def _maker(self, topics: Iterable[str]) -> Blame:
        """Return the node that produced the results for the topics, if it is unambiguous."""
        task = self._task
        within = task.sub_topologies
        sinks = [sink for topic in topics for sink in sinks_to(topic, within, task.topic_name)]
        return maker_of(sinks[0], within) if len(sinks) == 1 else Blame(None, None)

    def of_schedule(self, name: str, error: ProductionError) -> None:
        """Handle refused results of one call of this schedule, alone in its transaction.

        Returns and raises as ``of_record``.
        """
        if self._decisions.is_letter_refused(name, error):
            return
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
        cause = error.__cause__ if isinstance(error.__cause__, ProcessingError) else error
        described = self._describe(record, cause, attempt=self._attempts[source])
        decision = self._decisions.ask(described)
        if decision.action is Action.RETRY:
            self._task.blocked_until_ms = self._task.monotonic_ms() + decision.delay_ms
        elif decision.action is Action.FAIL:
            raise (final if cause is error else cause) from cause.__cause__ or cause
        else:
            self._decided[source] = decision, cause

    def _describe(
        self, record: FetchedRecord | None, error: RecordError, *, attempt: int = 1
    ) -> FailedRecord:
        """Describe a failure; the processing of results buffered for the commit may have failed."""
        if isinstance(error, ProcessingError):
            return self._decisions.described(
                record, error, "processing", error.node, attempt=attempt
            )
        return self._decisions.described(
            record, error, "production", error.node, attempt=attempt, sent_to=error.topic
        )

    def has(self, source: Source) -> bool:
        """Return True if this source must be skipped."""
        return source in self._decided

    def carry_out(self, source: Source, record: FetchedRecord | None) -> None:
        """Skip or dead-letter the source, as decided."""
        decision, error = self._decided[source]
        self._decisions.carry_out(decision, self._describe(record, error), source)
        if isinstance(source, str):
            self._settled.add(source)

    def drop_results(self, source: Source, record: FetchedRecord | None, outputs: int) -> None:
        """Drop the results of a source that must be skipped, and keep the state that it wrote.

        ``outputs``: the number of outputs before it.
        """
        if self.has(source):
            del self._task.outputs[outputs:]
            self.carry_out(source, record)
        elif isinstance(source, str) and source in self._attempts:
            self._settled.add(source)  # its next failure is a new one

    def freeze(self) -> None:
        """Begin a commit: later outcomes belong to the next one."""
        if self._settled:
            self._committing |= self._settled
            self._settled.clear()

    def discard(self) -> None:
        """Forget what was skipped since the last commit; it will come again."""
        self._settled.clear()
        self._committing.clear()
        self._decisions.discard()

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Forget sources before these offsets, and skipped calls; they will not come again."""
        for source in [*self._decided, *self._attempts]:
            if self._is_past(source, offsets):
                self._decided.pop(source, None)
                self._attempts.pop(source, None)
        self._decisions.committed(lambda source: self._is_past(source, offsets))
        self._committing.clear()

    def _is_past(self, source: Source, offsets: Mapping[TopicPartition, int]) -> bool:
        if isinstance(source, str):
            return source in self._committing
        return offsets.get(TopicPartition(source.topic, source.partition), 0) > source.offset
