"""Convert rows from outside to changelog records: typed by the manifest, placed by murmur2.

A row is a mapping with the columns that a reader of the store sees: ``key`` and ``value``; for
windows and sessions also ``window_start`` and ``window_end``; for versions ``valid_from`` and, if
the version has ended and no other follows, ``valid_to``. Times are datetimes (without a time zone:
UTC) or milliseconds. ``_timestamp`` is the row's own time, if the store keeps one; without it the
beginning of its window is used, or 0. A null value deletes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from logstate.admin.described_encoders import encoder
from logstate.changelog.stores.kinds import KINDS, kind_of
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.changelog_keys import KeyLayout
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, LogstateError, SerdeError
from logstate.contracts.record_parts import TIMESTAMP_MAX
from logstate.contracts.serde import Serde
from logstate.kafka.partition_counts import murmur2_partition
from logstate.topics.row_places import key_part

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS: Final = frozenset({"key", "value", "_timestamp"})
_COLUMNS_OF_VERSIONS: Final = frozenset({"key", "value", "valid_from", "valid_to"})
Row = Mapping[str, Any]


class LoggedRow(NamedTuple):
    """A record of the changelog."""

    partition: int
    key: bytes
    value: bytes | None
    time_ms: int


@dataclass(frozen=True)
class StoreRows:
    """Converts rows to records, for one store of a manifest."""

    name: str
    entry: Mapping[str, Any]
    kind: StoreKind
    layout: KeyLayout
    encode_key: Callable[[Any], bytes]
    encode_value: Callable[[Any], bytes]
    key_part: Callable[[bytes], bytes]

    @classmethod
    def of(
        cls,
        name: str,
        entry: Mapping[str, Any],
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
    ) -> StoreRows:
        """Raises ConfigError for a store that cannot be filled from outside.

        ``key`` and ``value`` are serdes, for formats that a manifest does not fully describe.
        """
        _check_can_be_filled(name, entry)
        kind, topic = kind_of(entry), str(entry["changelog_topic"])
        inner = (entry.get("key") or {}).get("inner", entry.get("key"))
        return cls(
            name,
            entry,
            kind,
            kind.layout_of(entry.get("key")),
            key.serializer(topic, True) if key else encoder(inner, is_key=True),
            value.serializer(topic, False) if value else encoder(entry.get("value"), is_key=False),
            key_part(kind, entry.get("key"), int(entry.get("hashed_windows", 0))),
        )

    @property
    def partitions(self) -> int:
        """The number of partitions of the store."""
        return int(self.entry["partitions"])

    @property
    def columns(self) -> frozenset[str]:
        """The columns that a row may have."""
        if self.kind.is_versioned:
            return _COLUMNS_OF_VERSIONS
        has_windows = self.layout.start_at is not None
        return _COLUMNS | ({"window_start", "window_end"} if has_windows else set())

    def check_columns(self, names: set[str]) -> None:
        """Raises ConfigError if rows of these columns are not rows of the store."""
        needed = {"key", "value", *self._times()}
        missing, strange = sorted(needed - names), sorted(names - self.columns)
        if missing or strange:
            raise ConfigError(
                f"store {self.name!r} has the columns {', '.join(sorted(self.columns))}; "
                + "; ".join(
                    [f"{one!r} is missing" for one in missing]
                    + [f"{one!r} is not one of them: rename or drop it" for one in strange]
                )
            )

    def _times(self) -> list[str]:
        """Return the required columns with times."""
        if self.kind.is_versioned:
            return ["valid_from"]
        ats = {"window_start": self.layout.start_at, "window_end": self.layout.end_at}
        return [name for name, at in ats.items() if at is not None]

    def logged(self, row: Row) -> list[LoggedRow]:
        """Return the records of a row: one, and a second one for the end of an ended version.

        Raises SerdeError for a row that cannot be written.
        """
        try:
            key, value = row["key"], row.get("value")
            if key is None:
                raise SerdeError("its key is null, and a row without a key has no partition")
            key_bytes = self.encode_key(key)
            value_bytes = None if value is None else self.encode_value(value)
            return self._records(row, key_bytes, value_bytes)
        except Exception as error:
            if isinstance(error, LogstateError) and not isinstance(error, SerdeError):
                raise
            shown = {name: row.get(name) for name in self.columns if name in row}
            raise SerdeError(
                f"the row {shown} does not fit store {self.name!r}: {type(error).__name__}:"
                f" {text_of(error)}. Nothing was written"
            ) from error

    def _records(self, row: Row, key: bytes, value: bytes | None) -> list[LoggedRow]:
        if self.kind.is_versioned:
            return self._version(row, key, value)
        tail, own_ms = self._key_suffix(row)
        if row.get("_timestamp") is not None:
            own_ms = _event_time(row, "_timestamp")
        return [self._row_of(key + tail, value, own_ms)]

    def _key_suffix(self, row: Row) -> tuple[bytes, int]:
        """Return the bytes after a key in the changelog, and the default time of the row."""
        if self.layout.start_at is None:
            return b"", 0
        start_ms = _event_time(row, "window_start")
        if self.layout.end_at is not None:
            end_ms = _event_time(row, "window_end")
            if end_ms < start_ms:
                raise SerdeError(
                    f"its session ends at {end_ms} ms, before its start at {start_ms} ms, and no"
                    " search by time would find it. Are the two columns exchanged?"
                )
            return self.layout.tail_of(start_ms, end_ms), end_ms
        self._check_end(row, start_ms)
        return self.layout.tail_of(start_ms, start_ms), start_ms

    def _check_end(self, row: Row, start_ms: int) -> None:
        """Check a window's end, which is not stored: the store's window size determines it."""
        key = self.entry.get("key") or {}
        size_ms = key.get("window_size_ms") or self.entry.get("window_size_ms")
        if size_ms is None or row.get("window_end") is None:
            return
        end_ms = milliseconds(row["window_end"])
        if end_ms != min(start_ms + size_ms, TIMESTAMP_MAX):
            raise SerdeError(
                f"its window goes from {start_ms} to {end_ms} ms, and those of the store are"
                f" {size_ms} ms long: is it a row of other windows? Write window_start as they"
                " begin, and leave window_end out"
            )

    def _version(self, row: Row, key: bytes, value: bytes | None) -> list[LoggedRow]:
        records = [self._row_of(key, value, _event_time(row, "valid_from"))]
        if row.get("valid_to") is not None and value is not None:
            records.append(self._row_of(key, None, _event_time(row, "valid_to")))
        return records

    def _row_of(self, key: bytes, value: bytes | None, time_ms: int) -> LoggedRow:
        place = murmur2_partition(self.key_part(key), self.partitions)
        return LoggedRow(place, key, value, time_ms)


def _event_time(row: Row, column: str) -> int:
    """Return a time in ms that a record can have: a store refuses other times."""
    time_ms = milliseconds(row[column])
    if not 0 <= time_ms <= TIMESTAMP_MAX:
        raise SerdeError(
            f"its {column} is {time_ms} ms, but event time must be between 0 (1970) and 2**63 - 1"
            " ms. Is the unit milliseconds, and the time not before 1970? Leave such rows out"
        )
    return time_ms


def _check_can_be_filled(name: str, entry: Mapping[str, Any]) -> None:
    kind, topic = kind_of(entry), entry.get("changelog_topic")
    if not kind.can_be_filled or entry.get("retain_duplicates"):
        fillable = ", ".join(one.name for one in KINDS.values() if one.can_be_filled)
        raise ConfigError(
            f"store {name!r} is a {kind.name} store of an operator that keeps more state than its"
            f" rows contain; only stores of the kinds {fillable} can be filled"
        )
    if topic is None:
        raise ConfigError(f"store {name!r} is not logged: it has no changelog to write rows to")
    if topic in entry.get("source_topics", ()):
        raise ConfigError(
            f"store {name!r} is kept in its source topic {topic!r}: produce its rows to that topic"
        )


def milliseconds(time: Any) -> int:
    """Return a time as milliseconds since the epoch.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 1))
    1000
    """
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        delta = aware - _EPOCH
        return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    raise SerdeError(f"expected a time (a datetime or milliseconds), got {time!r}")
