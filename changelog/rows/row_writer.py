"""Convert a value put into a store to its row and its changelog record.

Plain stores log with the timestamp of the record being processed, timestamped ones with the row's
own; a deletion always with the record's. Stores with headers log the row's headers, or the record's
on a deletion; the window stores of joins log the record's, though their rows do not keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.serialization_errors import value_serialization_error
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec


class EncodedRow(NamedTuple):
    """A row, and its logged value; both None for a deletion."""

    row: bytes | None
    logged_value: bytes | None
    timestamp: int
    headers: Headers


RowEncoder: TypeAlias = Callable[[Any], EncodedRow]


def row_encoder(spec: StoreSpec, codec: RowCodec, context: TaskContext) -> RowEncoder:
    """Return the function from a value put into a store, or None, to the encoded row.

    Values of a session store with headers are put with their headers, as a pair.
    """
    encode_value, store = codec.encode_value, codec.store
    new_row, _, _, has_timestamp, has_headers = codec.row_format
    new = tuple.__new__
    if has_headers and not has_timestamp:

        def encode_session(value: Any) -> EncodedRow:
            if value is None:
                return EncodedRow(None, None, context.timestamp, context.headers)
            value, headers = value
            try:
                data = encode_value(value)
            except Exception as error:  # noqa: BLE001  serdes raise anything
                raise value_serialization_error(store, error) from error.__cause__
            timestamp = context.timestamp
            return EncodedRow(new_row(data, timestamp, headers), data, timestamp, headers)

        return encode_session
    if not has_timestamp:
        logs_headers = spec.logs_headers

        def encode_plain(value: Any) -> EncodedRow:
            try:
                data = None if value is None else encode_value(value)
            except Exception as error:  # noqa: BLE001
                raise value_serialization_error(store, error) from error.__cause__
            headers = context.headers if logs_headers else None
            return new(EncodedRow, (data, data, context.timestamp, headers))

        return encode_plain

    def encode(value: Any) -> EncodedRow:
        if value is None or value[0] is None:
            headers = context.headers if has_headers else None
            return EncodedRow(None, None, context.timestamp, headers)
        try:
            data = encode_value(value[0])
        except Exception as error:  # noqa: BLE001
            raise value_serialization_error(store, error) from error.__cause__
        timestamp, headers = value[1], value[2] if has_headers else None
        return new(EncodedRow, (new_row(data, timestamp, headers), data, timestamp, headers))

    return encode
