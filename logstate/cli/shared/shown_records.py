"""Records for display: keys, values and windows decoded, times as dates."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from logstate.changelog.stores.kinds import kind_of
from logstate.cli.shared.printing import finite, json_text, printable
from logstate.cli.shared.stored_logs import StoredLog
from logstate.contracts.changelog_keys import PLAIN, WINDOWED, KeyLayout
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import FetchedRecord
from logstate.serdes.described import Description, format_name, guessed, readable_decoder

Read = Callable[[bytes], tuple[str, Any]]


class DisplayedRecord(NamedTuple):
    """One record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    #: start and end in ms; None without a window, the end None if it is unknown
    window: tuple[int, int | None] | None
    #: of key and value, from a description or guessed
    formats: tuple[str, str]
    is_tombstone: bool

    def as_plain_data(self) -> dict[str, Any]:
        """Return the record as data for JSON."""
        key_format, value_format = self.formats
        found = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "key": self.key,
            "value": self.value,
            "key_format": key_format,
            "value_format": value_format,
        }
        if self.window is not None:
            found["window_start"], found["window_end"] = self.window
        return found


class RecordReader:
    """Decodes the records of one topic. ``log`` None: key and value by their descriptions."""

    def __init__(
        self,
        log: StoredLog | None,
        key: Description | None,
        value: Description | None,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = log.layout if log is not None else _layout_of_key(key)
        self._size_ms = log.window_size_ms if log is not None else (key or {}).get("window_size_ms")
        if log is None and self._layout is not PLAIN:
            key = (key or {})["inner"]
        self._key = _reading(key, registry)
        self._value = _reading(value, registry)
        self._log = log

    def shown(self, record: FetchedRecord) -> DisplayedRecord:
        """Decode a record; a part that cannot be decoded is marked."""
        key, value = record.key(), record.value()
        key_format, shown_key, window = self._key_and_window(key)
        if value is not None and key is not None and self._log is not None:
            value = kind_of(self._log.entry).value_of(key, value, self._log.name)
        value_format, shown_value = ("none", None) if value is None else self._value(value)
        return DisplayedRecord(
            str(record.topic()),
            int(record.partition() or 0),
            int(record.offset() or 0),
            max(record.timestamp()[1], 0),
            shown_key,
            shown_value,
            window,
            (key_format, value_format),
            record.value() is None,
        )

    def _key_and_window(self, key: bytes | None) -> tuple[str, Any, tuple[int, int | None] | None]:
        """Return the key's format, the key, and its window."""
        if key is None:
            return "none", None, None
        layout = self._layout
        tail = layout.tail_bytes
        if len(key) < tail:
            name = f"windowed, not readable: expected {tail} bytes of a window after the key"
            return name, guessed(key).value, None
        return *self._key(layout.inner_key(key)), layout.window_of(key, self._size_ms)


def _layout_of_key(key: Description | None) -> KeyLayout:
    """Return the layout for a topic that is not a changelog: only its key serde determines it."""
    return WINDOWED.get((key or {}).get("format", ""), PLAIN)


def _reading(description: Description | None, registry: Mapping[str, str] | None) -> Read:
    if description is None:
        return _guess
    name, decode = format_name(description), readable_decoder(description, registry)

    def read(data: bytes) -> tuple[str, Any]:
        try:
            return name, decode(data)
        except LogstateError as error:
            return f"{name}, not readable: {error}", guessed(data).value
        except Exception as error:  # noqa: BLE001  a decoder may raise anything for unknown bytes
            return f"{name}, not readable: {error}", guessed(data).value

    return read


def _guess(data: bytes) -> tuple[str, Any]:
    found = guessed(data)
    return f"guessed: {found.format}", found.value


def in_words(value: Any) -> str:
    """Return a value in one line: text without quotes, everything else as JSON."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return str(value)
    try:
        return printable(msgspec.json.encode(finite(value)).decode())
    except UnicodeEncodeError:  # a lone surrogate, which JSON as ASCII can write
        return json_text(value)


def date_of(time_ms: int | None) -> str:
    """Return an event time for people, in UTC.

    >>> date_of(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    if time_ms is None:
        return "?"
    try:
        moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def window_in_words(window: tuple[int, int | None] | None) -> str:
    """Return ``[start, end]`` as dates; empty without a window."""
    return "" if window is None else f"[{date_of(window[0])}, {date_of(window[1])}]"
