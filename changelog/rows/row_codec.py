"""Encode and decode the values and headers of a store's rows.

Layouts, all integers big-endian::

    plain                     value
    timestamped               8 bytes timestamp | value
    session with headers      header block | value
    timestamped with headers  8 bytes timestamp | header block | value
    with a TTL                8 bytes index time | 8 bytes time | value; a timestamped row has its
                              timestamp as the time. See logstate.changelog.rows.expiring_rows
    header block              4 bytes count, then per header:
                              4 bytes length, name, 4 bytes length (-1 = null), value

Changelogs hold the value alone: its timestamp and headers travel as the record's.

A codec is bound once per store, and readers other than the store (queries) use the same one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from logstate.changelog.rows.key_bounds import Bounds, key_bounds
from logstate.changelog.rows.serialization_errors import naming_store
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RegistryError, SerdeError
from logstate.contracts.formats import SCALARS
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Deserializer
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp, prefix_bytes
from logstate.contracts.topic_names import changelog_name

_COUNT = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_NO_HEADERS = _COUNT.pack(0)


class RowFormat(NamedTuple):
    """What a row holds in addition to its value; each kind of store has its formats."""

    #: (value, timestamp, headers) -> row; where rows expire, the index time is put before it later
    encode: Callable[[bytes, int, Headers], bytes]
    #: row -> value
    value_of: Callable[[bytes], bytes]
    #: the store's decoder of values -> the decoder of rows, to what users of the store see
    row_decoder: Callable[[Callable[[bytes], Any]], Callable[[bytes], Any]]
    has_timestamp: bool = False
    has_headers: bool = False


class RowCodec(NamedTuple):
    """The functions of one store; ``decode_row`` gives what its users see."""

    store: str
    encode_key: Callable[[Any], bytes]
    raw_key: Callable[[Any], bytes]
    """As ``encode_key``; errors name the store, at the cost of a call."""
    raw_prefix: Callable[[Any], bytes]
    """The bytes that keys begin with; refuses a prefix that does not determine any."""
    decode_key: Callable[[bytes], Any]
    encode_value: Callable[[Any], bytes]
    decode_value: Callable[[bytes], Any]
    decode_row: Callable[[bytes], Any]
    key_bounds: Callable[[Any, Any], Bounds]
    row_format: RowFormat
    encode_element: Callable[[Any], Any]
    """Of stores with several elements per key; so is ``decode_element``."""
    decode_element: Callable[[Any], Any]

    def key_range(self, lower: Any, upper: Any) -> Callable[[bytes], bool]:
        """Return a test whether a serialized key is between two keys, inclusive; None = open."""
        first, last = self.key_bounds(lower, upper)
        if last is None:
            return lambda raw: first <= raw
        return lambda raw: first <= raw <= last


def format_of_rows(formats: RowFormats, spec: StoreSpec) -> RowFormat:
    """The format of a store's rows among those of its kind; those that expire have two times."""
    row_format = formats[spec.with_headers]
    return row_format if spec.ttl_ms is None else EXPIRING_ROWS[row_format]


def serde_topic(spec: StoreSpec, context: TaskContext) -> str:
    """The topic that the store's serdes are bound to: its changelog, or the source topic."""
    if spec.source_topic is not None:
        return context.topic_name(spec.source_topic, is_internal=False)
    return context.topic_name(changelog_name(spec.name), is_internal=True)


def row_codec(spec: StoreSpec, topic: str, row_format: RowFormat) -> RowCodec:
    """Bind the serdes of a store for ``topic``."""
    decode_value = spec.value.deserializer(topic, False)
    if spec.value_format["format"] not in SCALARS:
        decode_value = _naming_the_store(decode_value, spec.name)
    encode_key = spec.key.serializer(topic, True)
    raw_key = naming_store(spec.name, encode_key)

    def raw_prefix(prefix: Any) -> bytes:
        found = prefix_bytes(spec, prefix)
        return raw_key(prefix) if found is None else found

    return RowCodec(
        spec.name,
        encode_key,
        raw_key,
        raw_prefix,
        spec.key.deserializer(topic, True),
        spec.value.serializer(topic, False),
        decode_value,
        row_format.row_decoder(decode_value),
        key_bounds(spec, raw_key),
        row_format,
        *spec.bound_element(topic),
    )


def _naming_the_store(decode_value: Deserializer[Any], store: str) -> Deserializer[Any]:
    def decode(value: bytes) -> Any:
        try:
            return decode_value(value)
        except RegistryError:  # not the row's fault
            raise
        except Exception as error:
            raise SerdeError(
                f"a row of store {store!r} cannot be read: {type(error).__name__}:"
                f" {text_of(error)}. Written rows are checked, so the row is from before its type"
                " was changed, or from another program. Declare a type that reads it (new fields"
                " need defaults; logstate.serdes.upgradable() reads rows of earlier"
                " types), or delete the row: put(key, None) in a processor;"
                " ErrorHandlers(processing=...) skips the records of its key until then"
            ) from error

    return decode


def _timestamped_decoder(
    decode_value: Callable[[bytes], Any], time_at: int = 0
) -> Callable[[bytes], Any]:
    unpack_timestamp = _TIMESTAMP.unpack_from
    # Half the time of calling the class: a named tuple's own constructor is a Python function.
    new, value_at = tuple.__new__, time_at + 8

    def decode(row: bytes) -> Any:
        time = unpack_timestamp(row, time_at)[0]
        return new(ValueAndTimestamp, (decode_value(row[value_at:]), time, None))

    return decode


def _decoder_with_headers(
    decode_value: Callable[[bytes], Any], time_at: int = 0
) -> Callable[[bytes], Any]:
    unpack_timestamp, new = _TIMESTAMP.unpack_from, tuple.__new__

    def decode(row: bytes) -> Any:
        headers, start = decode_headers(row, time_at + 8)
        fields = (decode_value(row[start:]), unpack_timestamp(row, time_at)[0], headers)
        return new(ValueAndTimestamp, fields)

    return decode


def _decoder_after_headers(decode_value: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    return lambda row: decode_value(row[decode_headers(row, 0)[1] :])


def timestamped_row(value: bytes, timestamp: int, _headers: Headers = None) -> bytes:
    """The row of a timestamped store; it keeps no headers."""
    return _TIMESTAMP.pack(timestamp) + value


def _row_with_headers(value: bytes, timestamp: int, headers: Headers) -> bytes:
    return _TIMESTAMP.pack(timestamp) + encode_headers(headers) + value


def encode_headers(headers: Headers) -> bytes:
    """The header block of a row; no headers and an empty list are the same.

    >>> decode_headers(encode_headers([("a", b"1"), ("b", None)]), 0)
    ([('a', b'1'), ('b', None)], 23)
    """
    if not headers:
        return _NO_HEADERS
    parts = [_COUNT.pack(len(headers))]
    for name, value in headers:
        raw = name.encode()
        parts += (_COUNT.pack(len(raw)), raw)
        parts += (_COUNT.pack(-1),) if value is None else (_COUNT.pack(len(value)), value)
    return b"".join(parts)


def decode_headers(row: bytes, offset: int) -> tuple[Headers, int]:
    """The headers of the block at ``offset`` and the offset behind it; none are None."""
    unpack = _COUNT.unpack_from
    (count,) = unpack(row, offset)
    offset += 4
    if not count:
        return None, offset
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        (length,) = unpack(row, offset)
        name = row[offset + 4 : offset + 4 + length].decode()
        offset += 4 + length
        (length,) = unpack(row, offset)
        offset += 4
        value = None if length < 0 else row[offset : offset + length]
        offset += max(length, 0)
        headers.append((name, value))
    return headers, offset


#: of rows without and with headers
RowFormats: TypeAlias = tuple[RowFormat, RowFormat]

PLAIN_ROW: Final = RowFormat(lambda value, *_: value, lambda row: row, lambda decode: decode)
TIMESTAMPED_ROW: Final = RowFormat(
    timestamped_row, lambda row: row[8:], _timestamped_decoder, has_timestamp=True
)
TIMESTAMPED_ROW_WITH_HEADERS: Final = RowFormat(
    _row_with_headers,
    lambda row: row[decode_headers(row, 8)[1] :],
    _decoder_with_headers,
    has_timestamp=True,
    has_headers=True,
)
ROW_WITH_HEADERS: Final = RowFormat(
    lambda value, _, headers: encode_headers(headers) + value,
    lambda row: row[decode_headers(row, 0)[1] :],
    _decoder_after_headers,
    has_headers=True,
)
#: of stores whose rows expire; the times of plain rows are not shown to their users
EXPIRING_ROWS: Final[Mapping[RowFormat, RowFormat]] = {
    PLAIN_ROW: RowFormat(
        timestamped_row,
        lambda row: row[16:],
        lambda decode: lambda row: decode(row[16:]),
    ),
    TIMESTAMPED_ROW: RowFormat(
        timestamped_row,
        lambda row: row[16:],
        lambda decode: _timestamped_decoder(decode, 8),
        has_timestamp=True,
    ),
    TIMESTAMPED_ROW_WITH_HEADERS: RowFormat(
        _row_with_headers,
        lambda row: row[decode_headers(row, 16)[1] :],
        lambda decode: _decoder_with_headers(decode, 8),
        has_timestamp=True,
        has_headers=True,
    ),
}
PLAIN_ROWS: Final[RowFormats] = PLAIN_ROW, PLAIN_ROW
TIMESTAMPED_ROWS: Final[RowFormats] = TIMESTAMPED_ROW, TIMESTAMPED_ROW_WITH_HEADERS
