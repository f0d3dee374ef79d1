"""The topologies of Takeover.java, by their names there. All keys and values are strings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from logstate import (
    HoppingWindows,
    JoinWindows,
    KStream,
    KTable,
    Processor,
    Record,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    key_value_store,
    until_window_closes,
)
from logstate.topology import Materialized
from logstate.topology.plan.plan import Topology
from logstate.topology.processor.processor_context import ProcessorContext

SECOND, TEN = timedelta(seconds=1), timedelta(seconds=10)
TUMBLING = TumblingWindows(size=TEN, grace=SECOND)
NEAR = JoinWindows(before=TEN, after=TEN, grace=SECOND)


class Takeover:
    """One builder, and the ends of its topologies."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self.builder = StreamsBuilder(
            window_emit_interval=timedelta(0), outer_join_emit_interval=timedelta(0)
        )

    def topic(self, name: str) -> str:
        return f"{self._application_id}.{name}"

    def stream(self, topic: str) -> KStream[str, str]:
        return self.builder.stream(self.topic(topic), key=str, value=str)

    def grouped(self) -> Any:
        return self.stream("left").group_by_key()

    def table(self, topic: str) -> KTable[str, str]:
        return self.builder.table(self.topic(topic), key=str, value=str, store=topic)

    def out(self, results: KStream[str, Any]) -> None:
        as_text = results.map_values(_text, value=str)
        as_text.to(self.topic("out"), key=str)

    def windowed(self, counts: Any) -> None:
        self.out(counts.to_stream(lambda w, _: f"{w.key}@{w.start_ms}-{w.end_ms}", key=str))


class Last(Processor[str, str, str, str]):
    """Keeps the last value of each key, and sends all of them every ten seconds of stream time."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.last = context.store("last")
        context.schedule(TEN, "stream_time", self.send)

    def process(self, record: Record[str, str]) -> None:
        self.last.put(record.key, record.value)

    def send(self, time_ms: int) -> None:
        for key, value in self.last.all():
            self.context.forward(Record(key, f"{value}@{time_ms}", time_ms))


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _plus(left: str, right: str | None) -> str:
    return f"{left}+{_text(right)}"


def _aggregate(t: Takeover) -> None:
    grouped = t.stream("left").group_by(lambda value: value[0], key=str, name="first")
    texts = grouped.aggregate(
        str, lambda _, value, so_far: so_far + value, value=str, store="texts"
    )
    t.out(texts.to_stream())


def _table_aggregate(t: Takeover) -> None:
    grouped = t.table("left").group_by(lambda _, v: (v[0], v), name="first", key=str, value=str)
    t.out(grouped.count(store="counts").to_stream())


def _foreign_key(t: Takeover) -> None:
    met = t.table("left").join(
        t.table("right"),
        _plus,
        foreign_key=lambda value: value[0],
        name="fk",
        store="met",
        value=str,
    )
    t.out(met.to_stream())


def _schedule(t: Takeover) -> None:
    t.builder.add_store(key_value_store("last", str, str))
    t.out(t.stream("left").process(Last, stores="last", name="last-of-each", key=str, value=str))


def _stream_table(t: Takeover) -> None:
    t.out(t.stream("left").join(t.table("right"), _plus))


def _versioned(t: Takeover) -> None:
    versions = Materialized("right", history=timedelta(seconds=100))
    table = t.builder.table(t.topic("right"), key=str, value=str, store=versions)
    t.out(t.stream("left").left_join(table, _plus, grace=TEN, name="waiting"))


def _windowed_again(t: Takeover) -> None:
    """The only one with several tasks: what was kept is found where the whole key is hashed to."""
    counts = t.grouped().windowed_by(TUMBLING).count(store="counts").to_stream()
    again = counts.repartition(name="again", partitions=3).group_by_key()
    t.windowed(again.reduce(lambda one, other: one + other, store="sums"))


def _lru(t: Takeover) -> None:
    two = Materialized("right", capacity=2)
    table = t.builder.table(t.topic("right"), key=str, value=str, store=two)
    t.out(t.stream("left").left_join(table, _plus))


def _closed(t: Takeover) -> None:
    store = Materialized("counts", retention=timedelta(hours=1))
    t.windowed(t.grouped().windowed_by(TUMBLING).count(store=store, emit="close"))


def _windows(windows: Any) -> Callable[[Takeover], None]:
    return lambda t: t.windowed(t.grouped().windowed_by(windows).count(store="counts"))


TOPOLOGIES: dict[str, Callable[[Takeover], None]] = {
    "count": lambda t: t.out(t.grouped().count(store="counts").to_stream()),
    "reduce": lambda t: t.out(
        t.grouped().reduce(lambda a, b: f"{a},{b}", store="joined").to_stream()
    ),
    "aggregate-behind-repartition": _aggregate,
    "tumbling-count": _windows(TUMBLING),
    "hopping-count": _windows(HoppingWindows(size=TEN, advance=timedelta(seconds=5), grace=SECOND)),
    "sliding-count": _windows(SlidingWindows(difference=TEN, grace=SECOND)),
    "session-count": _windows(SessionWindows(gap=TEN, grace=SECOND)),
    "closed-windows": _closed,
    "suppress": lambda t: t.windowed(
        t.grouped()
        .windowed_by(TUMBLING)
        .count(store="counts")
        .suppress(until_window_closes(), name="held")
    ),
    "table-aggregate": _table_aggregate,
    "stream-table-join": _stream_table,
    #: nothing comes in on the right in the first part: whoever begins commits no offset there
    "empty-table-join": _stream_table,
    "versioned-join": _versioned,
    "table-table-join": lambda t: t.out(
        t.table("left").left_join(t.table("right"), _plus).to_stream()
    ),
    "foreign-key-join": _foreign_key,
    "stream-join": lambda t: t.out(
        t.stream("left").join(t.stream("right"), _plus, windows=NEAR, name="j")
    ),
    "stream-left-join": lambda t: t.out(
        t.stream("left").left_join(t.stream("right"), _plus, windows=NEAR, name="j")
    ),
    "lru-join": _lru,
    "schedule": _schedule,
    "windowed-again": _windowed_again,
}


_TWO_INPUTS = {
    *("stream-table-join", "empty-table-join", "versioned-join", "table-table-join"),
    *("foreign-key-join", "stream-join", "stream-left-join", "lru-join"),
}
#: which inputs each reads
READS = {name: {"left", "right"} if name in _TWO_INPUTS else {"left"} for name in TOPOLOGIES}

#: what comes out has gone through topics of the application's own
BEHIND_TOPICS = {
    *("aggregate-behind-repartition", "table-aggregate", "foreign-key-join", "windowed-again")
}


def topology_of(name: str, application_id: str) -> Topology:
    """The topology of a name, as Takeover.java declares it."""
    takeover = Takeover(application_id)
    TOPOLOGIES[name](takeover)
    return takeover.builder.build()
