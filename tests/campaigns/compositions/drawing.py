"""A topology that is being drawn: its streams and tables, and what every operator needs."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import msgspec

from logstate.topology import (
    HoppingWindows,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
)
from logstate.topology.dsl.panes import early

T = TypeVar("T")
Numbers = KStream[str, int]


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def size_of(value: Any) -> int:
    """Return a number that differs for most results, whatever their type."""
    return len(str(msgspec.to_builtins(value, enc_hook=str)))


class Drawing:
    """Streams have text keys and numbers as values, so that each operator can follow each."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.builder = StreamsBuilder()
        self.streams: list[Numbers] = []
        self.tables: list[KTable[str, Any]] = []
        self._names = 0
        #: streams of late records and of expired rows that were named and are not read yet
        self._late: list[str] = []
        self._expired: list[str] = []

    def name(self, of: str) -> str:
        """Return a name that nothing has."""
        self._names += 1
        return f"{of}{self._names}"

    def choice(self, *options: T) -> T:
        return self.rng.choice(options)

    def is_likely(self, probability: float) -> bool:
        return self.rng.random() < probability

    # ------------------------------------------------------------------ options

    def idle(self) -> timedelta | None:
        return self.choice(None, None, ms(30))

    def late(self) -> str | None:
        """Name a stream of late records, or none."""
        if self.is_likely(0.5):
            return None
        self._late.append(self.name("late"))
        return self._late[-1]

    def store(self) -> Materialized:
        """Draw a store that may have a TTL, and a stream of its expired rows."""
        options: dict[str, Any] = {"in_memory": True} if self.is_likely(0.2) else {}
        if self.is_likely(0.4):
            options["ttl"] = ms(self.choice(10, 40))
            if self.is_likely(0.5):
                options["expired"] = self.name("expired")
                self._expired.append(options["expired"])
        return Materialized(self.name("store"), **options)

    def window_store(self) -> Materialized:
        return Materialized(self.name("store"), retention=ms(self.choice(200, 5_000)))

    def windows(self) -> Any:
        size, grace, idle = ms(self.choice(10, 30)), ms(self.choice(0, 5, 12)), self.idle()
        kind = self.choice("tumbling", "hopping", "sliding", "session")
        if kind == "tumbling":
            return TumblingWindows(size=size, grace=grace, close_on_idle=idle)
        if kind == "hopping":
            return HoppingWindows(size=size, advance=ms(5), grace=grace, close_on_idle=idle)
        if kind == "sliding":
            return SlidingWindows(difference=size, grace=grace, close_on_idle=idle)
        return SessionWindows(gap=ms(8), grace=grace, close_on_idle=idle)

    # ------------------------------------------------------------------ results

    def add(self, stream: KStream[str, Any]) -> None:
        self.streams.append(stream)

    def add_table(self, table: KTable[str, Any], emit: str = "update") -> None:
        """Add a table, and its updates or changes as a stream."""
        updates = self._updates(table, emit)
        self.add(updates.map_values(size_of, value=int, name=self.name("size")))
        if emit != "delta":
            self.tables.append(table)

    def add_windows(self, table: KTable[Any, Any], emit: str, *, has_panes: bool) -> None:
        """Add the results of windows by the key of their records, or their panes."""
        results: KStream[Any, Any]
        if has_panes and self.is_likely(0.4):
            trigger = self.choice(None, early(every=ms(10)), early(records=2))
            results = table.to_pane_stream(trigger, name=self.name("panes"))
        else:
            results = self._updates(table, emit)
        self.add(
            results.map(
                lambda window, value: (window.key, size_of(value)),
                key=str,
                value=int,
                name=self.name("size"),
            )
        )

    def _updates(self, table: KTable[Any, Any], emit: str) -> KStream[Any, Any]:
        if emit == "delta" or self.is_likely(0.5):
            return table.to_stream(name=self.name("updates"))
        return table.to_change_stream(name=self.name("changes"))

    def add_named(self) -> None:
        """Add the streams of late records and of expired rows that the last operator has."""
        for name in self._late:
            late = self.builder.late(name, key=str, value=int)
            self.add(late.map_values(lambda one: one.by_ms % 7, value=int, name=self.name("by-ms")))
        for name in self._expired:
            rows = self.builder.expired(name, key=Any, value=Any)
            self.add(
                rows.map(
                    lambda key, row: (str(key), size_of(row)),
                    key=str,
                    value=int,
                    name=self.name("size"),
                ).repartition(name=self.name("again"), key=str, value=int)
            )
        self._late, self._expired = [], []
