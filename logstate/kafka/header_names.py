"""Headers whose names are not UTF-8, read as the Java client reads them.

Kafka does not check header names, so a producer in C, Go or Rust can write any bytes. The Java
client replaces malformed bytes by U+FFFD. confluent-kafka raises a UnicodeDecodeError at the first
call of ``Message.headers()``; the second call returns a list in which the undecodable names are
null pointers, and reading one of them crashes the process. So the headers of every message are read
once, here, and a message with such names is replaced before it is used.
"""

from __future__ import annotations

import gc
from collections import deque
from operator import length_hint
from typing import Any, Final

from confluent_kafka import Message

from logstate.contracts.records import Headers

_REPLACEMENT: Final = "\ufffd"


class RecordWithReplacedNames:
    """A message whose malformed header names are replaced; a ``FetchedRecord``."""

    __slots__ = ("_headers", "_message")

    def __init__(self, message: Message, headers: Headers) -> None:
        self._message, self._headers = message, headers

    def topic(self) -> str | None:
        return self._message.topic()

    def partition(self) -> int | None:
        return self._message.partition()

    def offset(self) -> int | None:
        return self._message.offset()

    def key(self) -> Any:
        return self._message.key()

    def value(self) -> Any:
        return self._message.value()

    def timestamp(self) -> tuple[int, int]:
        return self._message.timestamp()

    def headers(self) -> Headers:
        return self._headers


def read_headers(records: list[Any]) -> None:
    """Read the headers of messages once, and replace messages with malformed names in the list.

    A malformed name becomes what the Java client makes of it. If one message has several, only the
    first is known, because confluent-kafka reports one: the others become U+FFFD.
    """
    remaining = iter(records)
    while True:
        try:
            deque(map(Message.headers, remaining), maxlen=0)
        except (UnicodeDecodeError, SystemError) as exc:
            name = _malformed_name(exc)
            if name is None:
                raise
            at = len(records) - length_hint(remaining) - 1
            records[at] = RecordWithReplacedNames(records[at], _replaced(records[at], name))
        else:
            return


def _malformed_name(error: BaseException | None) -> bytes | None:
    """Return the undecodable name. Python may wrap the client's error in a SystemError."""
    while error is not None and not isinstance(error, UnicodeDecodeError):
        error = error.__cause__
    return None if error is None else error.object


def _replaced(message: Message, first_name: bytes) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    name = first_name.decode(errors="replace")
    for pair in message.headers() or ():
        # The garbage collector skips null pointers: any other way to read them is unsafe.
        parts = gc.get_referents(pair)
        if len(parts) == len(pair):
            headers.append(pair)
        else:
            headers.append((name, parts[0]))
            name = _REPLACEMENT
    return headers
