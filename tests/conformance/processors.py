"""The named processors, on logstate's public Processor API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from logstate.contracts.records import Record

from .functions import text, wrap
from .named_processor import NamedProcessor
from .store_processors import STORE_PROCESSORS


class RunningCount(NamedProcessor):
    """Counts the records of a key."""

    def handle(self, record: Record[Any, Any]) -> None:
        count = wrap((self.store.get(record.key) or 0) + 1)
        self.store.put(record.key, count)
        self.context.forward(record._replace(value=count))


class CountPunctuate(NamedProcessor):
    """Counts silently; a punctuation forwards a tick and every count."""

    def start(self) -> None:
        self.context.schedule(
            timedelta(milliseconds=self.args["interval_ms"]),
            self.args["time"],
            self.punctuate,
            start=self.args.get("start_ms"),
        )

    def handle(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, wrap((self.store.get(record.key) or 0) + 1))

    def punctuate(self, timestamp: int) -> None:
        rows = list(self.store.all())
        self.context.forward(Record("tick", len(rows), timestamp))
        for key, count in rows:
            self.context.forward(Record(key, count, timestamp))
            if self.args.get("clear"):
                self.store.delete(key)


class MemoryPunctuate(NamedProcessor):
    """Passes records on; its schedules forward what it has seen last."""

    takes_null_keys = True

    def start(self) -> None:
        self.seen: dict[str, Any] = {}
        for schedule in self.args["schedules"]:
            self.context.schedule(
                timedelta(milliseconds=schedule["interval_ms"]),
                schedule["time"],
                partial(self.punctuate, schedule["name"]),
                start=schedule.get("start_ms"),
            )

    def handle(self, record: Record[Any, Any]) -> None:
        if record.key is not None:
            self.seen[text(record.key)] = record.value
        if self.args["passes"]:
            self.context.forward(record)

    def punctuate(self, name: str, timestamp: int) -> None:
        for key, value in sorted(self.seen.items()):
            self.context.forward(Record(name + key, value, timestamp))


class Dedup(NamedProcessor):
    """Forwards a key at most once in ``ttl_ms`` of event time."""

    def handle(self, record: Record[Any, Any]) -> None:
        seen = self.store.get(record.key)
        if seen is None or record.timestamp - seen >= self.args["ttl_ms"]:
            self.store.put(record.key, record.timestamp)
            self.context.forward(record)


class HeaderEdit(NamedProcessor):
    """Removes the headers ``drop``, appends ``seen``."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        kept = [header for header in record.headers or () if header[0] != "drop"]
        headers = [*kept, ("seen", text(record.value).encode())]
        self.context.forward(record._replace(headers=headers))


class HeaderToValue(NamedProcessor):
    """Shows the headers."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        shown = (
            f"{name}={text(None if raw is None else raw.decode())}"
            for name, raw in record.headers or ()
        )
        self.context.forward(record._replace(value=";".join(shown)))


class Meta(NamedProcessor):
    """Shows where the record came from, and the clocks."""

    def handle(self, record: Record[Any, Any]) -> None:
        source = self.context.record_metadata()
        # A record that a punctuation forwarded comes from nowhere.
        where = "null/-1@-1" if source is None else f"{source[0]}/{source[1]}@{source[2]}"
        shown = (
            f"{where} ts={record.timestamp}"
            f" stream={self.context.current_stream_time_ms()}"
            f" wall={self.context.current_system_time_ms()}"
        )
        self.context.forward(record._replace(value=shown))


class ForwardMany(NamedProcessor):
    """Forwards up to three records."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        if record.value is None:
            return
        self.context.forward(
            record._replace(
                key=text(record.key) + "'",
                value=wrap(record.value + 1),
                timestamp=record.timestamp + 1,
            )
        )
        headers = [*(record.headers or ()), ("n", b"2")]
        self.context.forward(record._replace(value=None, headers=headers))


class Route(NamedProcessor):
    """Forwards to the child that the value's parity names."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        if record.value is None:
            self.context.forward(record)
        else:
            child = self.args["even"] if record.value % 2 == 0 else self.args["odd"]
            self.context.forward(record, child=child)


class RunningTotal(NamedProcessor):
    """Sums the values of a key; null starts again. For ``process_values``."""

    def handle(self, record: Record[Any, Any]) -> None:
        if record.value is None:
            self.store.delete(record.key)
            self.context.forward(record)
            return
        total = wrap((self.store.get(record.key) or 0) + record.value)
        self.store.put(record.key, total)
        self.context.forward(record._replace(value=total))


class ValuesTwice(NamedProcessor):
    """Forwards the record and a second one, 5 ms later. For ``process_values``."""

    takes_null_keys = True

    def handle(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        if record.value is not None:
            self.context.forward(
                record._replace(value=wrap(record.value + 100), timestamp=record.timestamp + 5)
            )


PROCESSORS: dict[str, type[NamedProcessor]] = {
    "running_count": RunningCount,
    "count_punctuate": CountPunctuate,
    "memory_punctuate": MemoryPunctuate,
    "dedup": Dedup,
    "header_edit": HeaderEdit,
    "header_to_value": HeaderToValue,
    "meta": Meta,
    "forward_many": ForwardMany,
    "route": Route,
    "running_total": RunningTotal,
    "values_twice": ValuesTwice,
    **STORE_PROCESSORS,
}


def supplier_of(
    name: str, args: dict[str, Any] | None, stores: list[str]
) -> Callable[[], NamedProcessor]:
    """What makes the named processor, once per task."""
    if name not in PROCESSORS:
        raise ValueError(f"there is no processor {name!r}; known: {', '.join(PROCESSORS)}")
    processor = PROCESSORS[name]
    return lambda: processor(args or {}, stores)
