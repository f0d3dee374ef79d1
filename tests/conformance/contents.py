"""What a store holds after the last event, in the form of the recordings.

Rows come in the order of a full forward scan. Buffers and foreign-key subscriptions give counts
only, because the recorder could not list them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from logstate.contracts.records import ProducedRecord, Windowed
from logstate.contracts.stores import StoreSpec

from .wire import decode_headers


def contents(spec: StoreSpec, store: Any, keys: Iterable[Any]) -> dict[str, Any]:
    """The recorded form of a store. ``keys``: every key a versioned store may hold, in order."""
    if spec.kind in ("suppress_buffer", "join_buffer"):
        return _buffer(store)
    if spec.kind == "foreign_key_subscription":
        return {"type": spec.kind, "num_records": store.num_records}
    kind = spec.kind + ("_headers" if spec.with_headers else "")
    if spec.kind == "versioned":
        return {"type": kind, "rows": _versions(store, keys)}
    rows = _ROWS[spec.kind](spec, store)
    if rows and spec.window_size_ms == 0:
        # The recorder could not make the window of a row whose end is its start.
        return {"type": kind, "unreadable": True}
    return {"type": kind, "rows": rows}


def join_rows(spec: StoreSpec, rows: list[Any], logged: Iterable[ProducedRecord]) -> list[Any]:
    """Rows of a stream join's window store as the recorder shows those that carry headers.

    They have two more columns, timestamp and headers. The store gives out plain values, but logs
    every row with its headers, so they are taken from there: rows of one key and start lie in the
    order in which they were put.
    """
    encode = spec.key.serializer("", True)
    headers: dict[tuple[bytes, int], deque[list[Any]]] = defaultdict(deque)
    for record in logged:
        if record.value is not None:
            start = int.from_bytes(record.key[-12:-4], "big")
            headers[record.key[:-12], start].append(decode_headers(record.headers))
    return [[*row, row[1], headers[encode(row[0]), row[1]].popleft()] for row in rows]


def _buffer(store: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "buffer", "num_records": store.num_records}
    if store.num_records:
        found["min_timestamp"] = store.min_timestamp
    return found


def _key_value(spec: StoreSpec, store: Any) -> list[Any]:
    return [[_key(key), value] for key, value in store.all()]


def _timestamped(spec: StoreSpec, store: Any) -> list[Any]:
    return [[_key(key), *_row(spec, row)] for key, row in store.all()]


def _window(spec: StoreSpec, store: Any) -> list[Any]:
    return [[_key(w.key), w.start_ms, w.end_ms, value] for w, value in store.all()]


def _timestamped_window(spec: StoreSpec, store: Any) -> list[Any]:
    return [[_key(w.key), w.start_ms, w.end_ms, *_row(spec, row)] for w, row in store.all()]


def _session(spec: StoreSpec, store: Any) -> list[Any]:
    """Key by key: the recorder asked for one key after the other."""
    encode = spec.key.serializer("", True)
    keys = {encode(session.key): session.key for session, _ in store.all()}
    rows = [
        (session, [_key(session.key), session.start_ms, session.end_ms, value])
        for _, key in sorted(keys.items())
        for session, value in store.fetch(key)
    ]
    if not spec.with_headers:
        return [row for _, row in rows]
    return [[*row, _session_headers(store, session)] for session, row in rows]


def _session_headers(store: Any, session: Windowed[Any]) -> list[list[Any]]:
    # Sessions are read as plain values: their headers are asked for one by one.
    return decode_headers(store.headers_of(*session))


def _outer_join(spec: StoreSpec, store: Any) -> list[Any]:
    return [[ts, side, _key(key), value] for ts, side, key, value in store.all()]


def _versions(store: Any, keys: Iterable[Any]) -> list[Any]:
    return [
        [_key(key), version.value, version.valid_from, version.valid_to]
        for key in keys
        for version in store.versions(key)
    ]


def _row(spec: StoreSpec, row: Any) -> list[Any]:
    """Value and timestamp, and headers where the store's format keeps them."""
    if not spec.with_headers:
        return [row.value, row.timestamp]
    return [row.value, row.timestamp, decode_headers(row.headers)]


def _key(key: Any) -> Any:
    if isinstance(key, Windowed):
        return {"key": key.key, "start": key.start_ms, "end": key.end_ms}
    return key


_ROWS: dict[str, Callable[[StoreSpec, Any], list[Any]]] = {
    "key_value": _key_value,
    "timestamped_key_value": _timestamped,
    "window": _window,
    "timestamped_window": _timestamped_window,
    "session": _session,
    "outer_join": _outer_join,
}
