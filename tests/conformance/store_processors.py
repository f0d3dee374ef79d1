"""The named processors that show what a store answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logstate.contracts.records import Record, Windowed
from logstate.contracts.stores import ValueAndTimestamp, VersionedRecord

from .functions import text
from .named_processor import NamedProcessor


class TimestampedPut(NamedProcessor):
    """Puts value and timestamp, shows the row before."""

    def handle(self, record: Record[Any, Any]) -> None:
        old = self.store.get(record.key)
        row = None
        if record.value is not None:
            row = ValueAndTimestamp(record.value, record.timestamp)
        self.store.put(record.key, row)
        self.context.forward(record._replace(value=_timestamped(old)))


class VersionedPut(NamedProcessor):
    """Puts or deletes a version, shows what the store answers now."""

    def handle(self, record: Record[Any, Any]) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if value is not None and value == self.args["delete_value"]:
            done = "delete:" + _version(self.store.delete(key, timestamp))
        else:
            done = f"put:{self.store.put(key, value, timestamp)}"
        latest = _version(self.store.get(key))
        as_of = _version(self.store.get(key, timestamp - self.args["back_ms"]))
        shown = f"{done} latest:{latest} asof:{as_of}"
        self.context.forward(record._replace(value=shown))


class VersionedGet(NamedProcessor):
    """Shows versions of a table's row."""

    def handle(self, record: Record[Any, Any]) -> None:
        key, timestamp = record.key, record.timestamp
        latest = _version(self.store.get(key))
        now = _version(self.store.get(key, timestamp))
        as_of = _version(self.store.get(key, timestamp - self.args["back_ms"]))
        shown = f"latest:{latest} at:{now} asof:{as_of}"
        self.context.forward(record._replace(value=shown))


class WindowPutFetchDup(NamedProcessor):
    """Puts into a window, shows what fetches see."""

    def handle(self, record: Record[Any, Any]) -> None:
        size = self.args["window_size_ms"]
        start = record.timestamp - record.timestamp % size
        self.store.put(record.key, record.value, start)
        self.context.forward(record._replace(value=self.seen(record, size)))

    def seen(self, record: Record[Any, Any], size: int) -> str:
        key, back = record.key, self.args["back_ms"]
        first, last = max(0, record.timestamp - back), record.timestamp + size
        forward = self.store.fetch_range(key, first, last)
        backward = self.store.fetch_range(key, first, last, reverse=True)
        every = self.store.fetch_all(first, last)
        return f"[{_starts(forward)}] back=[{_starts(backward)}] all=[{_windows(every)}]"


class WindowPutFetch(WindowPutFetchDup):
    """Shows the previous window as well."""

    def seen(self, record: Record[Any, Any], size: int) -> str:
        start = record.timestamp - record.timestamp % size
        one = self.store.fetch(record.key, max(0, start - size))
        return f"{super().seen(record, size)} one={text(one)}"


class SessionPutFind(NamedProcessor):
    """Puts or removes a session, shows what finds see."""

    def handle(self, record: Record[Any, Any]) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if value is None:
            self.store.remove(Windowed(key, timestamp, timestamp))
        else:
            self.store.put(Windowed(key, max(0, timestamp - value), timestamp), value)
        earliest_end = max(0, timestamp - self.args["back_ms"])
        forward = self.store.find_sessions(key, earliest_end, timestamp)
        backward = self.store.find_sessions(key, earliest_end, timestamp, reverse=True)
        shown = (
            f"find=[{_windows(forward)}] back=[{_windows(backward)}]"
            f" fetch=[{_windows(self.store.fetch(key))}]"
        )
        self.context.forward(record._replace(value=shown))


class KeyValueScript(NamedProcessor):
    """Runs the command in the value."""

    def handle(self, record: Record[Any, Any]) -> None:
        if record.value is None:
            return
        command, *parts = record.value.split("|")
        shown = COMMANDS[command](self.store, record.key, parts)
        self.context.forward(record._replace(value=shown))


def _put(store: Any, key: Any, parts: list[str]) -> str:
    store.put(key, parts[0])
    return "ok"


def _put_all(store: Any, _key: Any, parts: list[str]) -> str:
    store.put_all(list(zip(parts[::2], parts[1::2], strict=True)))
    return "ok"


#: command -> what to forward, from (store, key, further parts of the command)
COMMANDS: dict[str, Callable[[Any, Any, list[str]], str]] = {
    "put": _put,
    "put_if_absent": lambda store, key, parts: text(store.put_if_absent(key, parts[0])),
    "put_all": _put_all,
    "get": lambda store, key, parts: text(store.get(key)),
    "delete": lambda store, key, parts: text(store.delete(key)),
    "all": lambda store, key, parts: _rows(store.all()),
    "reverse_all": lambda store, key, parts: _rows(store.reverse_all()),
    "range": lambda store, key, parts: _rows(store.range(*_bounds(parts))),
    "reverse_range": lambda store, key, parts: _rows(store.reverse_range(*_bounds(parts))),
    "prefix": lambda store, key, parts: _rows(store.prefix_scan(parts[0])),
}


def _bounds(parts: list[str]) -> tuple[str | None, str | None]:
    lower, upper = parts
    return lower or None, upper or None


class GlobalSuffix(NamedProcessor):
    """Fills a global store."""

    def handle(self, record: Record[Any, Any]) -> None:
        value = None if record.value is None else record.value + "!"
        self.store.put(record.key, value)


class GlobalLookup(NamedProcessor):
    """Shows the row of a global store."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        row = None if record.key is None else self.store.get(record.key)
        shown = _timestamped(row) if isinstance(row, ValueAndTimestamp) else text(row)
        self.context.forward(record._replace(value=f"{text(record.value)}/{shown}"))


def _timestamped(row: ValueAndTimestamp[Any] | None) -> str:
    return "null" if row is None else f"{text(row.value)}@{row.timestamp}"


def _version(row: VersionedRecord[Any] | None) -> str:
    if row is None:
        return "null"
    end = "-" if row.valid_to is None else row.valid_to
    return f"{text(row.value)}@{row.valid_from}..{end}"


def _starts(rows: Iterable[tuple[int, Any]]) -> str:
    return " ".join(f"{start}={text(value)}" for start, value in rows)


def _windows(rows: Iterable[tuple[Windowed[Any], Any]]) -> str:
    return " ".join(f"{text(w.key)}@{w.start_ms}..{w.end_ms}={text(value)}" for w, value in rows)


def _rows(rows: Iterable[tuple[Any, Any]]) -> str:
    return "[" + " ".join(f"{text(key)}={text(value)}" for key, value in rows) + "]"


STORE_PROCESSORS: dict[str, type[NamedProcessor]] = {
    "timestamped_put": TimestampedPut,
    "versioned_put": VersionedPut,
    "versioned_get": VersionedGet,
    "window_put_fetch": WindowPutFetch,
    "window_put_fetch_dup": WindowPutFetchDup,
    "session_put_find": SessionPutFind,
    "kv_script": KeyValueScript,
    "global_suffix": GlobalSuffix,
    "global_lookup": GlobalLookup,
}
