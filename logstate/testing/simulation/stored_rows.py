"""The rows of stores that can be compared: those that only depend on the consumed records."""

from __future__ import annotations

from collections.abc import Mapping

from logstate.changelog.state import TaskState
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.stores import StoreSpec


def rows_of(state: TaskState) -> dict[str, dict[bytes, bytes]]:
    """Store -> its rows as the task sees them."""
    return {name: dict(rows.scan()) for name, rows in state._rows.items()}


def comparable(spec: StoreSpec, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the rows that only depend on the consumed records and their order.

    Left out: rows that a kind of store has for its own use, rows of windows that are older than the
    retention, which may be deleted at any time, the sequences of an LRU store, of which only the
    order matters, and where rows with a TTL are in the index.
    """
    if spec.ttl_ms is not None:
        return {key: row[8:] for key, row in rows.items()}
    if spec.capacity is not None:
        return in_order_of_use(rows)
    if spec.retention_ms is not None and rows:
        oldest = max(row_time(spec, key) for key in rows) - spec.retention_ms
        return {key: value for key, value in rows.items() if row_time(spec, key) > oldest}
    own = kind_of(spec).own_rows
    return {key: value for key, value in rows.items() if key not in own}


def in_order_of_use(rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Entries of an LRU store by their places, the one to be forgotten next first."""
    keys = [key for index, key in sorted(rows.items()) if index[:1] == b"\x01"]
    entries = {key[1:]: row[8:] for key, row in rows.items() if key[:1] == b"\x00"}
    assert sorted(entries) == sorted(keys), "every entry has its own place in the order"
    return {place.to_bytes(2, "big") + key: entries[key] for place, key in enumerate(keys)}


def row_time(spec: StoreSpec, row: bytes) -> int:
    """By which the row expires: a session's end, or a window's start.

    Rows of windows are segment, key, start, sequence number; for results on close, which lie by
    time first, segment, 0, start, key, sequence number, or segment, 1 and the key as else.
    """
    if spec.keep_at_retention and row[8:9] == b"\x00":
        return int.from_bytes(row[9:17], "big")
    return kind_of(spec).key_layout.expiry_time(row)
