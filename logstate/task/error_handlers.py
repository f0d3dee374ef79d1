"""Handlers for records that fail (KIP-161, KIP-210, KIP-399, KIP-1033, KIP-1034, KIP-1065).

A record fails because it does not decode, because a function raises while the record or a schedule
is processed, or because its result cannot be produced. A handler receives a :class:`FailedRecord`
and returns a :class:`Decision`. Built-in handlers are ``fail`` (the default), ``skip``,
``dead_letter`` and ``retry(...)``.

A skipped or dead-lettered record is rolled back completely: all that it wrote to stores, forwarded,
produced or scheduled is undone. (Kafka Streams keeps those effects; so does ``on_skip="keep"``.) It
is always counted, and its offset is committed as processed. Stream time has advanced to it, as for
records that operators drop.

There are two kinds of results that cannot be produced. A value that its serde cannot encode is
detected at once. A record that the broker refuses (too large, no such topic, no permission) is
detected later, and ends the transaction: it is aborted and replayed in smaller and smaller parts
until the record that caused it is alone. Then the handler decides about that record, and the replay
skips it. So the results of all other records are unchanged, and each is produced once. (Kafka
Streams only calls the handler for results that are too large or late, and drops the one result;
``on_skip="keep"`` drops the results of that record and keeps the state that it wrote.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Literal, TypeAlias

from logstate.contracts.error_text import text_of, trace_of
from logstate.contracts.errors import check
from logstate.contracts.records import Headers, ProducedRecord, RecordMetadata
from logstate.contracts.setting_rules import choice, count, duration, shown, topic
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.callbacks import signature_problems

_PREFIX = "__streams.errors."
#: a longer key is left out of a dead letter that was refused before
_KEY_BYTES_MAX = 1_000
#: a longer message is truncated in such a dead letter
_SHORT_MAX = 500
#: maximum of a doubled wait
_DAY = timedelta(days=1)


class Action(Enum):
    """What to do with the record: the first argument of a :class:`Decision`."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"
    RETRY = "retry"


@dataclass(frozen=True)
class Decision:
    """A handler's answer; ``delay`` is only for RETRY. Raises ConfigError for invalid arguments.

    >>> Decision(Action.RETRY, delay=timedelta(seconds=2)).delay_ms
    2000.0
    """

    action: Action
    delay: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        delay = duration("delay of a Decision", self.delay, unit="milliseconds")
        check(_of_action(self.action), delay)

    @property
    def delay_ms(self) -> float:
        """The delay in milliseconds."""
        return self.delay / timedelta(milliseconds=1)


@dataclass(frozen=True)
class FailedRecord:
    """A record as it was read, and what went wrong with it.

    A schedule has no record: ``source``, ``key`` and ``value`` are None then.

    ``error`` is the library's error and says where it happened: a ``DeserializationError``, a
    ``ProcessingError`` (also for punctuation) or a ``ProductionError``. The exception of your
    function, a serde or the client is ``error.__cause__``, which is None if none was raised: use it
    for decisions. ``timestamp`` is in ms; ``key`` and ``value`` are the bytes on the topic.

    >>> def skip_values_that_are_no_numbers(failed):
    ...     is_known = isinstance(failed.error.__cause__, ValueError)
    ...     return Decision(Action.SKIP if is_known else Action.FAIL)
    >>> handlers = ErrorHandlers(processing=skip_values_that_are_no_numbers)
    """

    source: RecordMetadata | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    #: "deserialization", "processing", "punctuation" or "production"
    stage: str
    task: str
    node: str | None
    #: number of attempts so far, 1 at the first failure
    attempt: int
    #: the library's error; its ``__cause__`` is the original exception
    error: Exception
    #: for "production": the topic that was written to, if known
    sent_to: str | None = None


def _of_action(action: object) -> Iterator[str]:
    if not isinstance(action, Action):
        *names, last = (str(one) for one in Action)
        word = action.strip().upper().replace("-", "_") if isinstance(action, str) else ""
        yield (
            f"the action of a Decision must be {', '.join(names)} or {last}; got"
            f" {shown(action)}. Write Decision({Action.__members__.get(word, Action.FAIL)})"
        )


Handler: TypeAlias = "Callable[[FailedRecord], Decision]"


def fail(record: FailedRecord) -> Decision:  # noqa: ARG001  every record gets the same answer
    """Stop the application; the record and all later ones are not committed.

    >>> handlers = ErrorHandlers(processing=retry(3, backoff=timedelta(seconds=1), then=fail))
    """
    return Decision(Action.FAIL)


def skip(record: FailedRecord) -> Decision:  # noqa: ARG001
    """Roll the record back and continue with the next one.

    >>> handlers = ErrorHandlers(deserialization=skip)
    """
    return Decision(Action.SKIP)


def dead_letter(record: FailedRecord) -> Decision:  # noqa: ARG001
    """Roll the record back and send its bytes to the dead letter topic, in the same transaction.

    >>> handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="orders-dead")
    """
    return Decision(Action.DEAD_LETTER)


def retry(attempts: int, *, backoff: timedelta, then: Handler = fail) -> Handler:
    """Try again after ``backoff``, doubled each time; after ``attempts`` failures call ``then``.

    A wait is doubled up to at most a day. Only the task of the record waits. Not for failures that
    cannot change: bytes that do not decode, values that do not encode.

    >>> handler = retry(3, backoff=timedelta(milliseconds=100), then=dead_letter)
    """
    check(
        count("attempts of retry()", attempts, least=1),
        duration("backoff of retry()", backoff, unit="milliseconds"),
        _of_handler("handler then= of retry()", then),
    )
    most = (_DAY // backoff).bit_length() - 1 if timedelta(0) < backoff <= _DAY else 0

    def handler(record: FailedRecord) -> Decision:
        if record.attempt >= attempts:
            return then(record)
        doublings = min(record.attempt - 1, most)
        return Decision(Action.RETRY, backoff * 2**doublings)

    return handler


def _of_handler(name: str, handler: object) -> Iterator[str]:
    if not callable(handler):
        yield (
            f"the {name} must be fail, skip, dead_letter, retry(...) or a function of the failed"
            f" record that returns a Decision; got {shown(handler)}"
        )
        return
    for problem in signature_problems(handler, f"the {name}", "the failed record alone", 1):
        remedy = ". Write retry(3, backoff=timedelta(milliseconds=100))" if handler is retry else ""
        yield problem + remedy


@dataclass(frozen=True)
class ErrorHandlers:
    """The handlers of an application, one per stage; each is called in the order of the records.

    >>> handlers = ErrorHandlers(
    ...     deserialization=dead_letter, processing=skip, dead_letter_topic="orders-dead"
    ... )
    """

    deserialization: Handler = fail
    #: for functions that raise, also in schedules
    processing: Handler = fail
    #: for results that cannot be encoded, or that the broker refuses
    production: Handler = fail
    #: must exist; records get Kafka Streams' ``__streams.errors.*`` headers
    dead_letter_topic: str | None = None
    on_skip: Literal["rollback", "keep"] = "rollback"

    def __post_init__(self) -> None:
        check(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from choice("on_skip", self.on_skip, ("rollback", "keep"))
        letters: object = self.dead_letter_topic
        if letters is not None:
            yield from topic("dead_letter_topic", letters)
        for stage in ("deserialization", "processing", "production"):
            handler: object = getattr(self, stage)
            yield from _of_handler(f"{stage} handler", handler)
            if handler is dead_letter and letters is None:
                yield (
                    f"the {stage} handler is dead_letter, but there is no dead letter topic: give"
                    " ErrorHandlers(dead_letter_topic=...)"
                )

    @property
    def guards_processing(self) -> bool:
        """True if a failed record may be skipped, so its effects must be undoable."""
        return self.processing is not fail or self.decides_on_results

    def problems_with(self, stores: Iterable[StoreSpec]) -> Iterator[str]:
        """Yield problems of the handlers with the stores."""
        reused = sorted(spec.name for spec in stores if spec.source_topic is not None)
        if reused and self.guards_processing and self.on_skip == "rollback":
            yield (
                f"a skipped record would be rolled back in {', '.join(map(repr, reused))}, but be"
                " in it again after a restore: a source topic serves as changelog there, and still"
                " has the record. Give ErrorHandlers(on_skip='keep'), as Kafka Streams does, or"
                " build without optimization='all' and 'reuse_source_topics'"
            )

    @property
    def decides_on_results(self) -> bool:
        """True if a record whose results cannot be produced may be skipped."""
        return self.production is not fail


#: the default: any failure stops the application
FAIL_ALWAYS = ErrorHandlers()


def dead_letter_record(
    topic: str,
    failed: FailedRecord,
    *,
    refused: Exception | None = None,
    trace: Headers = None,
) -> ProducedRecord:
    """Return the record for the dead letter topic: bytes as read, the details in the headers.

    Long messages and traces are truncated. ``refused``: why the brokers refused it in full. Then it
    is sent without value, headers and trace, and says so in ``__streams.errors.cut``: these can be
    found at the record's position. ``trace``: the headers of the span of a record that began its
    trace here; they replace its own ones of the same names.
    """
    error = failed.error.__cause__ or failed.error
    source = failed.source
    story = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "stacktrace": trace_of(error),
        "message": text_of(error),
        "topic": None if source is None else source.topic,
        "partition": str(-1 if source is None else source.partition),
        "offset": str(-1 if source is None else source.offset),
    }
    key, value, kept = failed.key, failed.value, failed.headers or ()
    if refused is not None:
        sizes = f"value: {_size(value)}, key: {_size(key)}, headers: {len(kept)}"
        why = text_of(refused)[:_SHORT_MAX]
        story["cut"] = f"left out, because the full letter was refused ({sizes}): {why}"
        story |= {"stacktrace": None, "message": text_of(error)[:_SHORT_MAX]}
        value, kept = None, ()
        key = None if key is None or len(key) > _KEY_BYTES_MAX else key
    traced = dict(trace or ())
    headers: list[tuple[str, bytes | None]] = [
        *((name, part) for name, part in kept if name not in traced),
        *traced.items(),
        *(
            (_PREFIX + name, None if text is None else text.encode(errors="replace"))
            for name, text in story.items()
        ),
    ]
    return ProducedRecord(topic, None, key, value, failed.timestamp, headers)


def letter_error(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str] | None:
    """Return what the headers of a dead letter say about its error; None for other records.

    The names are ``exception``, ``message``, ``stacktrace``, ``topic``, ``partition``, ``offset``
    and ``cut``, as far as they are known.

    >>> letter_error([("__streams.errors.exception", b"builtins.ValueError"), ("own", b"1")])
    {'exception': 'builtins.ValueError'}
    """
    found = {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in headers
        if name.startswith(_PREFIX) and value is not None
    }
    return found if "exception" in found else None


def _size(part: bytes | None) -> str:
    return "none" if part is None else f"{len(part)} bytes"
