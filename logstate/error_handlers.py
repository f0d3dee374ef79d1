"""What to do with a record that cannot be decoded or processed (KIP-161, KIP-1033, KIP-1034).

A handler looks at a :class:`FailedRecord` and answers with a :class:`Decision`. Ready-made ones are
``fail`` (the default), ``skip``, ``dead_letter`` and ``retry(...)``.

A skipped or dead-lettered record is rolled back whole: what it wrote to stores, forwarded, produced
or scheduled is undone, as if it had never been. (Kafka Streams keeps those effects;
``on_skip="keep"`` does too.) It is always counted, and its offset is committed as processed. Stream
time has advanced to it, as it does for records that operators drop.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Literal, TypeAlias

from logstate.records import Headers, ProducedRecord, RecordMetadata

_PREFIX = "__streams.errors."
#: a stack trace in a header is cut here: headers count towards the record's size
_TRACE_CHARACTERS_MAX = 4_000


class Action(Enum):
    """What becomes of the record."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"
    RETRY = "retry"


@dataclass(frozen=True)
class Decision:
    """A handler's answer; ``delay`` is only for RETRY."""

    action: Action
    delay: timedelta = timedelta(0)


@dataclass(frozen=True)
class FailedRecord:
    """A record as it was read, and what went wrong with it."""

    source: RecordMetadata
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    #: "deserialization" or "processing"
    stage: str
    task: str
    node: str | None
    #: attempts so far, 1 at the first failure
    attempt: int
    error: Exception


Handler: TypeAlias = "Callable[[FailedRecord], Decision]"


def fail(record: FailedRecord) -> Decision:  # noqa: ARG001  every record gets the same answer
    """Stop the application; nothing past the record is committed."""
    return Decision(Action.FAIL)


def skip(record: FailedRecord) -> Decision:  # noqa: ARG001
    """Roll the record back and go on with the next."""
    return Decision(Action.SKIP)


def dead_letter(record: FailedRecord) -> Decision:  # noqa: ARG001
    """Roll the record back and send its bytes to the dead letter topic, in the same transaction."""
    return Decision(Action.DEAD_LETTER)


def retry(attempts: int, *, backoff: timedelta, then: Handler = fail) -> Handler:
    """Try again after ``backoff``, doubled each time; after ``attempts`` failures ask ``then``.

    Only the task of the record waits. Not for deserialization: bytes do not change.

    >>> handler = retry(3, backoff=timedelta(milliseconds=100), then=dead_letter)
    """

    def handler(record: FailedRecord) -> Decision:
        if record.attempt >= attempts:
            return then(record)
        return Decision(Action.RETRY, backoff * 2 ** (record.attempt - 1))

    return handler


@dataclass(frozen=True)
class ErrorHandlers:
    """The handlers of an application.

    >>> handlers = ErrorHandlers(
    ...     deserialization=dead_letter, processing=skip, dead_letter_topic="orders-dead"
    ... )
    """

    deserialization: Handler = fail
    processing: Handler = fail
    #: must exist; records get Kafka Streams' ``__streams.errors.*`` headers
    dead_letter_topic: str | None = None
    on_skip: Literal["rollback", "keep"] = "rollback"

    @property
    def guards_processing(self) -> bool:
        """True where a failed record may be passed over, so its effects must be undoable."""
        return self.processing is not fail


def dead_letter_record(topic: str, failed: FailedRecord) -> ProducedRecord:
    """The record for the dead letter topic: bytes as read, the story in the headers."""
    error = failed.error.__cause__ or failed.error
    trace = "".join(traceback.format_exception(error))[-_TRACE_CHARACTERS_MAX:]
    story = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "stacktrace": trace,
        "message": str(error),
        "topic": failed.source.topic,
        "partition": str(failed.source.partition),
        "offset": str(failed.source.offset),
    }
    headers: list[tuple[str, bytes | None]] = [
        *(failed.headers or ()),
        *((_PREFIX + name, text.encode(errors="replace")) for name, text in story.items()),
    ]
    return ProducedRecord(topic, None, failed.key, failed.value, failed.timestamp, headers)
