"""Convert records of a source topic that serves as changelog to the records that are stored.

External producers write such a topic, in any form that its serdes read. The application decodes
each record and encodes it again, so a null in the value's own format (JSON's ``null``, the null of
an Avro union) deletes the row, and a JSON key is the same key however it is formatted. External
readers do not have the serdes, only their descriptions, and convert by these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.records import FetchedRecord
from logstate.serdes.described import readable_decoder

AsStored = Callable[[list[FetchedRecord]], list[FetchedRecord]]

#: nulls are short: a word with spaces around it, or a branch number after a header
_NULL_BYTES_MAX = 64
_BLANKS = b" \t\r\n"
_decode_json = msgspec.json.Decoder().decode
_encode_key = msgspec.json.Encoder(order="deterministic").encode


def is_source_topic(entry: Mapping[str, Any]) -> bool:
    """Whether a store's changelog, by its manifest entry, is a topic of external producers."""
    return entry.get("changelog_topic") in (entry.get("source_topics") or ())


def as_stored(entry: Mapping[str, Any], registry: Mapping[str, str] | None = None) -> AsStored:
    """Return a function from records to stored records; the same for most changelogs."""
    if not is_source_topic(entry):
        return list
    is_null = _null_test(entry.get("value") or {}, registry)
    has_json_keys = (entry.get("key") or {}).get("format") == "json"
    if is_null is None and not has_json_keys:
        return list

    def taken(record: FetchedRecord) -> FetchedRecord:
        key, value = record.key(), record.value()
        plain = _plain_key(key) if has_json_keys else key
        stored = None if value is None or (is_null is not None and is_null(value)) else value
        return record if plain == key and stored is value else _Stored(record, plain, stored)

    return lambda records: list(map(taken, records))


def is_json_null(data: bytes) -> bool:
    r"""Whether a document is ``null``.

    >>> is_json_null(b" null\n"), is_json_null(b'"null"')
    (True, False)
    """
    return len(data) <= _NULL_BYTES_MAX and data.strip(_BLANKS) == b"null"


def _null_test(
    value: Mapping[str, Any], registry: Mapping[str, str] | None
) -> Callable[[bytes], bool] | None:
    """Return a test whether a value means null; None for a format without its own null."""
    form = value.get("format")
    if form == "json":
        return is_json_null
    if form not in ("avro", "json_schema"):
        return None

    @cache
    def decode() -> Callable[[bytes], Any]:
        return readable_decoder(value, registry)

    def means_null(data: bytes) -> bool:
        if len(data) > _NULL_BYTES_MAX:
            return False
        try:
            return decode()(data) is None
        except Exception:  # noqa: BLE001  decoding the table reports the record
            return False

    return means_null


def _plain_key(key: bytes | None) -> bytes | None:
    try:
        return None if key is None else _encode_key(_decode_json(key))
    except UNDECODABLE:
        return key


class _Stored:
    """A record with the key and the value of its row."""

    __slots__ = ("_key", "_record", "_value")

    def __init__(self, record: FetchedRecord, key: bytes | None, value: bytes | None) -> None:
        self._record, self._key, self._value = record, key, value

    def topic(self) -> str | None:
        return self._record.topic()

    def partition(self) -> int | None:
        return self._record.partition()

    def offset(self) -> int | None:
        return self._record.offset()

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._record.timestamp()

    def headers(self) -> Any:
        return self._record.headers()
