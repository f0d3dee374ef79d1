"""Records of topics for display, decoded as the manifest describes them.

For commands and for the web page. Nothing here needs the code of the application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.changelog_keys import PLAIN, WINDOWED, KeyLayout
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.serdes.described import Description, format_name, guessed, readable_decoder
from logstate.topics.manifest_changes import Entry, Manifest

Read = Callable[[bytes], tuple[str, Any]]

#: number of offsets that are read first: transaction markers and gaps among them are not records
_LEAST_SPAN = 64
#: how many times more are read next if they had too few records
_GROWTH = 8


class StoredLog(NamedTuple):
    """The changelog of a store."""

    name: str
    entry: Entry
    topic: str
    partitions: int
    layout: KeyLayout
    key: Description | None
    value: Description | None
    window_size_ms: int | None


def log_of_entry(name: str, entry: Entry, topic: str, partitions: int) -> StoredLog:
    """Return a changelog as its entry in the manifest describes it."""
    key, size_ms = entry.get("key"), entry.get("window_size_ms")
    kind = kind_of(entry)
    layout = PLAIN if kind.is_internal else kind.layout_of(key)
    if key is not None and key.get("format") in WINDOWED:
        size_ms = key.get("window_size_ms") or size_ms
        key = key["inner"]
    value = entry.get("value")
    if kind.is_internal:
        key = value = None
    return StoredLog(name, entry, topic, partitions, layout, key, value, size_ms)


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
    #: of a row of a list or a map: the name of its element, and the element
    element: tuple[str, Any] | None = None

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
        if self.element is not None:
            name, found_element = self.element
            found[name] = found_element
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
        element = None if log is None else log.entry.get("element")
        self._element = _reading(element, registry)

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
            self._element_of(key, has_value=value is not None),
        )

    def _element_of(self, key: bytes | None, *, has_value: bool) -> tuple[str, Any] | None:
        found = None if key is None or self._log is None else self._layout.element_of(key)
        if found is None or self._log is None:
            return None
        name = kind_of(self._log.entry).element_name
        if not name and has_value:  # it is the value
            return None
        return name or "element", self._element(found)[1]

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


def reader_of_topic(
    manifest: Manifest, topic: str, partitions: int, registry: Mapping[str, str] | None = None
) -> RecordReader:
    """Return the decoder of a topic; the formats of one that the manifest lacks are guessed."""
    for store, entry in manifest["stores"].items():
        if entry["changelog_topic"] == topic:
            log = log_of_entry(store, entry, topic, partitions)
            return RecordReader(log, log.key, log.value, registry)
    between, external = manifest.get("topics", {}), manifest.get("formats", {})
    formats: Mapping[str, Any] = between.get(topic) or external.get(topic, {})
    return RecordReader(None, formats.get("key"), formats.get("value"), registry)


def _layout_of_key(key: Description | None) -> KeyLayout:
    """Return the layout for a topic that is not a changelog: only its key serde determines it."""
    return WINDOWED.get((key or {}).get("format", ""), PLAIN)


def _reading(description: Description | None, registry: Mapping[str, str] | None) -> Read:
    if description is None:
        return _guess_format
    name, decode = format_name(description), readable_decoder(description, registry)

    def read(data: bytes) -> tuple[str, Any]:
        try:
            return name, decode(data)
        except LogstateError as error:
            return f"{name}, not readable: {error}", guessed(data).value
        except Exception as error:  # noqa: BLE001  a decoder may raise anything for unknown bytes
            return f"{name}, not readable: {error}", guessed(data).value

    return read


def _guess_format(data: bytes) -> tuple[str, Any]:
    found = guessed(data)
    return f"guessed: {found.format}", found.value


def newest_records(
    bounds: Mapping[TopicPartition, tuple[int, int]],
    limit: int,
    read: Callable[[Mapping[TopicPartition, tuple[int, int]]], Iterable[FetchedRecord]],
) -> list[FetchedRecord]:
    """Return the last records of all partitions, by their times, oldest first.

    ``bounds``: the first offset of each partition and the one after the last. ``read`` returns the
    records of the given ranges of offsets, each partition's in their order. Longer and longer
    ranges are read, because markers and compacted records may leave few records in one.
    """
    found: dict[TopicPartition, list[FetchedRecord]] = {}
    left, span = dict(bounds), max(_LEAST_SPAN, 2 * limit)
    while left:
        ranges = {tp: (max(start, end - span), end) for tp, (start, end) in left.items()}
        last: dict[TopicPartition, list[FetchedRecord]] = {tp: [] for tp in left}
        for record in read(ranges):
            of = last[TopicPartition(str(record.topic()), record.partition() or 0)]
            of.append(record)
            if len(of) > 2 * limit:
                del of[:-limit]
        found |= last
        left = {
            tp: one for tp, one in left.items() if len(last[tp]) < limit and ranges[tp][0] > one[0]
        }
        span *= _GROWTH
    newest = (record for records in found.values() for record in records[-limit:])
    return sorted(newest, key=place_in_time)[-limit:]


def place_in_time(record: FetchedRecord) -> tuple[int, int, int]:
    """Return the place of a record in the order of times, of all partitions."""
    return record.timestamp()[1], record.partition() or 0, record.offset() or 0
