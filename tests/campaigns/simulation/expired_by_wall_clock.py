"""Streams of rows that expire by the wall clock, under the faults of any schedule, jumps included.

A task notes the wall clock of each record and of each look for rows that have expired. From these
times a model computes which rows were emitted, and in which order: each once, whenever the commits
were, and although a record or an operator below may write the same key again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cache

from logstate.contracts.records import Record
from logstate.task.punctuation import PunctuationKind
from logstate.task.task import Task
from logstate.testing.simulation.traced_task import TracedStep, TracedTask
from logstate.topology import (
    Processor,
    StreamsBuilder,
    Topology,
    key_value_store,
    map_store,
    set_store,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.wall_clock_expiry import Model, WallClockExpiry

#: of each store, in the order of the names of their streams
_TTL_MS = {"digits": 40, "last": 30, "places": 20}


class Keep(Processor[str, str, str, str]):
    """Keeps the last orders of a key, of all and by digit, and forwards what it found."""

    def process(self, record: Record[str, str]) -> None:
        store, key, digit = self.context.store, record.key, record.value[-1:]
        found = [
            store("last").get(key),
            store("places").get(key, "3"),
            [*store("places").items(key)],
            store("digits").add(key, digit),
        ]
        store("last").put(key, None if digit == "5" else record.value)
        store("places").put(key, digit, record.value)
        self.context.forward(record.with_value(repr(found)))


class Remind(Processor[str, str, None, None]):
    """Writes to a store whose rows may expire in the same look."""

    def process(self, record: Record[str, str]) -> None:
        self.context.store("digits").add(record.key, "x")


@cache
def topology(*, in_memory: bool) -> Topology:
    """A processor whose stores emit what expires, and one below such a stream."""
    builder = StreamsBuilder(in_memory_stores=in_memory)

    def options(name: str) -> dict[str, object]:
        ttl = timedelta(milliseconds=_TTL_MS[name])
        expired = f"gone-{name}"
        return {"ttl": ttl, "ttl_by": "wall_clock", "expired": expired, "in_memory": in_memory}

    stores = (
        key_value_store("last", str, str, **options("last")),  # type: ignore[arg-type]
        map_store("places", str, str, str, renew_on_read=True, **options("places")),  # type: ignore[arg-type]
        set_store("digits", str, str, **options("digits")),  # type: ignore[arg-type]
    )
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    orders.process(Keep, stores=stores, key=str, value=str, name="keep").to("enriched")
    last = builder.expired("gone-last", key=str, value=str)
    last.process(Remind, stores="digits")
    last.map_values(lambda order: f"last {order}", value=str).to("windowed")
    places = builder.expired("gone-places", key=str, value=tuple[str, str])
    places.map_values(lambda pair: f"places {' '.join(pair)}", value=str).to("windowed")
    digits = builder.expired("gone-digits", key=str, value=str)
    digits.map_values(lambda digit: f"digits {digit}", value=str).to("windowed")
    return builder.build()


class LooksTraced(TracedTask):
    """Notes every look by the wall clock, also one that finds nothing: it sets the clocks."""

    def punctuate(self, kind: PunctuationKind, *, only: str | None = None) -> int:
        if kind != "wall_clock":
            return super().punctuate(kind, only=only)
        self.steps.append(TracedStep(None, -1, self.wall_clock_ms(), []))
        return Task.punctuate(self, kind, only=only)


class EmittingModel(Model):
    """What the stores hold and emit, as their documentation says."""

    def see(self, wall_clock_ms: int) -> None:
        """Look: emit what has expired."""
        super().see(wall_clock_ms)
        taken = sorted(
            (time + _TTL_MS[path[0]], path)
            for path, (_, time) in self._rows.items()
            if time + _TTL_MS[path[0]] <= self.now
        )
        values = {path: str(self._rows.pop(path)[0]) for _, path in taken}
        for _, (store, key, *element) in taken:
            value = values[store, key, *element]
            said = {"last": [value], "digits": element, "places": [*element, value]}[store]
            self.results["windowed"].append((key, " ".join((store, *said))))
            if store == "last":
                self._put("", "digits", key, "x")

    def commit(self, wall_clock_ms: int) -> None:
        """A commit does not move the clock: the looks do."""

    def process(self, key: str, value: str) -> None:
        """Keep an order, and note what the processor forwards."""
        digit = value[-1:]
        third = self._get("places", key, "3")
        if third is not None:
            self._put(third, "places", key, "3")
        paths = sorted(path for path in self._rows if path[:2] == ("places", key))
        places = [(path[2], self._rows[path][0]) for path in paths]
        is_new = self._get("digits", key, digit) is None
        found = [self._get("last", key), third, places, is_new]
        self.results["enriched"].append((key, repr(found)))
        self._put("", "digits", key, digit)
        self._put(value, "places", key, digit)
        self._put(value, "last", key)
        if digit == "5":
            del self._rows["last", key]

    def live(self) -> Mapping[str, int]:
        """The number of rows of each store."""
        found = [path[0] for path in self._rows]
        return {store: found.count(store) for store in _TTL_MS}

    def _get(self, store: str, *key: str) -> object:
        return self._rows.get((store, *key), (None, 0))[0]


class ExpiredByWallClock(WallClockExpiry):
    """A schedule of this flow."""

    make_topology = staticmethod(topology)
    make_model = EmittingModel
    task_class = LooksTraced
    topics = ("enriched", "windowed")
