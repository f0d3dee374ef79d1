"""What the handlers decide: asked about what fails, and done what they answer.

Of a result that brokers refuse nothing is known before the commit. The worker finds the record, or
the scheduled callback, that it came of (:mod:`logstate.worker.poison_record`); the handler is asked
about it here, and its answer waits in :class:`RefusedResults` for the replay, which skips it.
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

#: between two lines about one thing that is done with records of a task
_TELL_INTERVAL_MS = 10_000

#: a record, or a schedule by its name
Source: TypeAlias = "RecordMetadata | str"
#: what is told of a record that a handler answers a dead letter for
_NO_LETTER = (
    "is left out of a global store, and there is no dead letter of it: every instance would send"
    " one, at each start"
)


class HandlerOutcomes:
    """The handlers of one task. Whatever is skipped or dead-lettered is counted."""

    def __init__(self, task: TaskProgress, handlers: ErrorHandlers) -> None:
        self._task = task
        self._handlers = handlers
        #: what was done with how many since that was logged last, and when it may be again
        self._untold: Counter[str] = Counter()
        self._tell_at_ms: dict[str, float] = {}
        #: what has a dead letter that is not committed
        self._lettered: set[Source] = set()
        #: what the brokers said about these dead letters
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
        """What a handler is told; a record of None is a schedule."""
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
        """The answer of the handler for this stage."""
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
            raise  # the record's own, mostly
        except Exception as exc:
            raise ConfigError(
                f"the {name} handler {function_site(handler)} raised {type(exc).__name__}:"
                f" {text_of(exc)}. It was asked about: {text_of(failed.error)}. Correct the handler"
            ) from exc
        if not isinstance(decision, Decision):
            raise ConfigError(
                f"the {name} handler {function_site(handler)} answered {shown(decision)}: it has to"
                " return a Decision, such as Decision(Action.SKIP), or what skip(record),"
                f" dead_letter(record) or fail(record) return. It was asked about:"
                f" {text_of(failed.error)}"
            ) from failed.error
        return decision

    def carry_out(
        self, decision: Decision, failed: FailedRecord, source: Source | None = None
    ) -> bool:
        """Skip or dead-letter; False for FAIL. ``source``: of a schedule its name."""
        task = self._task
        source = source or failed.source
        if decision.action is Action.SKIP:
            task.skipped_total += 1
            self._tell("is skipped", failed)
            return True
        if decision.action is Action.DEAD_LETTER:
            if not task.sends:
                task.skipped_total += 1
                self._tell(_NO_LETTER, failed)
                return True
            topic = self._handlers.dead_letter_topic
            if topic is None:
                raise ConfigError(
                    "a handler answered DEAD_LETTER and no dead letter topic is configured; give"
                    " ErrorHandlers(dead_letter_topic=...)"
                ) from failed.error
            if failed.source is not None and failed.source.topic == topic:
                raise ConfigError(
                    f"the record at {failed.source} failed, and its topic is the dead letter topic:"
                    " its dead letter would come back here, and fail for ever. Give"
                    " ErrorHandlers(dead_letter_topic=...) a topic that is not read here, or let"
                    " the handler answer SKIP or FAIL for this one. What failed:"
                    f" {text_of(failed.error)}"
                ) from failed.error
            refused = None if source is None else self._refused.get(source)
            task.send(dead_letter_record(topic, failed, refused=refused))
            if source is not None:
                self._lettered.add(source)
            task.dead_letters_total += 1
            self._tell(f"went to the dead letter topic {topic!r}", failed)
            return True
        return False

    def is_letter_refused(self, source: Source, error: ProductionError) -> bool:
        """What came of this source, alone in its transaction, was refused: was that a dead letter?

        Then the replay sends a shorter one: what is wrong with one record must not end the
        application. Where that is refused too, it is not the record: the topic takes no letters.
        """
        if source not in self._lettered or source in self._refused:
            return False
        self._refused[source] = error
        return True

    def discard(self) -> None:
        """What is not committed will come again."""
        self._lettered.clear()

    def committed(self, is_past: Callable[[Source], bool]) -> None:
        """The open transaction is committed; what ``is_past`` will not come again."""
        for source in [*self._refused]:
            if source in self._lettered or is_past(source):
                del self._refused[source]
        self._lettered.clear()

    def _tell(self, what: str, failed: FailedRecord) -> None:
        """One line for the first of many: a topic full of them must not fill the disk with logs."""
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
            "" if self._untold[what] == 1 else f" ({self._untold[what]} since this was told last)",
        )
        self._untold[what], self._tell_at_ms[what] = 0, now_ms + _TELL_INTERVAL_MS


def _part(read: Callable[[], Any]) -> Any:
    """A part of a record; None where the client cannot read it."""
    try:
        return read()
    except Exception:  # noqa: BLE001  the error that the handler gets says so
        return None


def where(record: FetchedRecord) -> RecordMetadata:
    """The place of a record in its log."""
    return RecordMetadata(record.topic() or "", record.partition() or 0, record.offset() or 0)


class RefusedResults:
    """The decisions about one task's refused results."""

    def __init__(self, task: TaskProgress, decisions: HandlerOutcomes) -> None:
        self._task = task
        self._decisions = decisions
        self._decided: dict[Source, tuple[Decision, RecordError]] = {}
        #: how often each was refused, for handlers that try again
        self._attempts: Counter[Source] = Counter()
        #: schedules that were skipped, or went well after all, since the last commit began
        self._settled: set[str] = set()
        #: those of the commit under way
        self._committing: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is to be skipped: on the path of every record."""
        return bool(self._decided)

    def of_record(
        self, source: RecordMetadata, error: ProductionError, sent: Mapping[str, int]
    ) -> None:
        """The results of this record, alone in its transaction, were refused.

        ``sent``: the topics of its results, with the bytes of the largest in each.
        Returns if the replay is to skip it, or to try it again; raises ProductionError
        otherwise.
        """
        if self._decisions.is_letter_refused(source, error):
            return
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
        told = self._told(record, cause, attempt=self._attempts[source])
        decision = self._decisions.ask(told)
        if decision.action is Action.RETRY:
            self._task.blocked_until_ms = self._task.monotonic_ms() + decision.delay_ms
        elif decision.action is Action.FAIL:
            raise (final if cause is error else cause) from cause.__cause__ or cause
        else:
            self._decided[source] = decision, cause

    def _told(
        self, record: FetchedRecord | None, error: RecordError, *, attempt: int = 1
    ) -> FailedRecord:
        """Of results that were held back for the commit, what failed may be their processing."""
        if isinstance(error, ProcessingError):
            return self._decisions.described(
                record, error, "processing", error.node, attempt=attempt
            )
        return self._decisions.described(
            record, error, "production", error.node, attempt=attempt, sent_to=error.topic
        )

    def has(self, source: Source) -> bool:
        """Whether this one is to be skipped."""
        return source in self._decided

    def carry_out(self, source: Source, record: FetchedRecord | None) -> None:
        """Skip or dead-letter it, as was decided."""
        decision, error = self._decided[source]
        self._decisions.carry_out(decision, self._told(record, error), source)
        if isinstance(source, str):
            self._settled.add(source)

    def leave_out(self, source: Source, record: FetchedRecord | None, outputs: int) -> None:
        """What is to be skipped keeps the state that it wrote: only what it sent goes.

        ``outputs``: how many there were before it.
        """
        if self.has(source):
            del self._task.outputs[outputs:]
            self.carry_out(source, record)
        elif isinstance(source, str) and source in self._attempts:
            self._settled.add(source)  # its next failure is another one

    def freeze(self) -> None:
        """A commit begins: what is settled from here on belongs to the next."""
        if self._settled:
            self._committing |= self._settled
            self._settled.clear()

    def discard(self) -> None:
        """What was skipped since the last commit will come again."""
        self._settled.clear()
        self._committing.clear()
        self._decisions.discard()

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """What lies before these offsets will not come again, nor will skipped calls."""
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
