"""Topologies before and after a change; each reads ``in`` (str, str) and knows nothing else."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from logstate import (
    Aggregate,
    HoppingWindows,
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    counter_store,
    json_of,
    until_time_limit,
    upgradable,
)
from logstate.contracts.records import Record
from logstate.serdes import avro
from logstate.topology import KStream
from logstate.topology.plan.plan import Topology

Declare = Callable[[StreamsBuilder], object]

INPUT, OTHER = "in", "other"


class Total(msgspec.Struct, frozen=True):
    count: int = 0


class Tally(msgspec.Struct, frozen=True):
    """What Total became: how many ever, and how many since."""

    counts: tuple[int, int]


class Widened(msgspec.Struct, frozen=True):
    count: float = 0.0


class WithDefault(msgspec.Struct, frozen=True):
    count: int = 0
    note: str = "none"


class WithoutDefault(msgspec.Struct, frozen=True):
    note: str
    count: int = 0


class Retyped(msgspec.Struct, frozen=True):
    count: str = ""


class Renamed(msgspec.Struct, frozen=True):
    count: int = 0


class Needed(msgspec.Struct, frozen=True):
    count: int


class Status(enum.Enum):
    NEW = enum.auto()
    PAID = enum.auto()


class StatusInserted(enum.Enum):
    NEW = enum.auto()
    HELD = enum.auto()
    PAID = enum.auto()


class StatusAdded(enum.Enum):
    NEW = 1
    PAID = 2
    HELD = 3


def with_status(status: type[enum.Enum]) -> type[Any]:
    """Total with a member of an enum."""
    fields = [("count", int, 0), ("status", status, status["PAID"])]
    return msgspec.defstruct("Total", fields, frozen=True)


def in_array(*names: str) -> type[Any]:
    """Total as an array; msgspec writes no names then."""
    fields = [("count", int, 0), *((name, int, 0) for name in names)]
    return msgspec.defstruct("Total", fields, frozen=True, array_like=True)


def omitting(limit: int) -> type[Any]:
    """Total without the fields that have their default."""
    fields = [("count", int, 0), ("limit", int, limit)]
    return msgspec.defstruct("Total", fields, frozen=True, omit_defaults=True)


class PrefixedBuilder(StreamsBuilder):
    """Reads topics whose names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def stream(self, topics: Any, **options: Any) -> Any:
        return super().stream(self._prefix + topics, **options)

    def table(self, topic: str, **options: Any) -> Any:
        return super().table(self._prefix + topic, **options)


def built(declare: Declare, prefix: str = "", **options: Any) -> Topology:
    builder = PrefixedBuilder(prefix)
    declare(builder)
    return builder.build(**options)


def records(builder: StreamsBuilder, topic: str = INPUT) -> KStream[str, str]:
    return builder.stream(topic, key=str, value=str)


DAY = timedelta(days=1)


def counted(name: str = "counts", topic: str = INPUT, **options: Any) -> Declare:
    """Count per key."""

    def declare(builder: StreamsBuilder) -> None:
        store = Materialized(name, **options)
        records(builder, topic).group_by_key().count(store=store)

    return declare


class Add(Processor[str, str, None, None]):
    """Counts per key in a store of its own."""

    def process(self, record: Record[str, str]) -> None:
        self.context.store("counts").add(record.key)


def remembered(**options: Any) -> Declare:
    """Count per key in the store of a processor, which expires a hundred years after the write."""

    def declare(builder: StreamsBuilder) -> None:
        store = counter_store("counts", str, ttl=36_525 * DAY, **options)
        records(builder).process(Add, stores=store)

    return declare


def filtered_count(builder: StreamsBuilder) -> None:
    records(builder).filter(lambda _: True).group_by_key().count(store="counts")


def both(*declares: Declare) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        for one in declares:
            one(builder)

    return declare


def joined(left: str, right: str) -> Declare:
    """Both sides keep their records."""

    def declare(builder: StreamsBuilder) -> None:
        near = JoinWindows.symmetric(timedelta(seconds=10))
        sides = records(builder, left), records(builder, right)
        sides[0].join(sides[1], lambda one, other: one + other, windows=near, name="pairs")
        sides[0].merge(sides[1]).group_by_key().count(store="counts")

    return declare


def counted_beside(first: str, second: str) -> Declare:
    """Two counts in one sub-topology, of a topic each."""

    def declare(builder: StreamsBuilder) -> None:
        streams = {topic: records(builder, topic) for topic in (INPUT, OTHER)}
        counts = streams[first].group_by_key().count(store="counts")
        counts.join(
            streams[second].group_by_key().count(store="late"), lambda n, m: n + m, value=int
        )

    return declare


def cogrouped(first: str, second: str) -> Declare:
    """The groups of both topics, each with a clock of its own."""

    def declare(builder: StreamsBuilder) -> None:
        window = TumblingWindows(size=timedelta(seconds=10))
        groups = [records(builder, topic).group_by_key() for topic in (first, second)]
        both = groups[0].cogroup(lambda n, _: n + 1).cogroup(groups[1], lambda n, _: n + 1)
        both.windowed_by(window).aggregate(lambda: 0, value=int, store="counts")

    return declare


def two_counts(builder: StreamsBuilder) -> None:
    grouped = records(builder).group_by_key()
    grouped.count(store="counts")
    grouped.reduce(lambda one, _: one, store="firsts")


def repartitioned(name: str) -> Declare:
    return by_value("counts", name)


def by_value(store: str, name: str, *, of_length: bool = False) -> Declare:
    """Count per key behind a repartition topic, of strings or of their lengths."""

    def declare(builder: StreamsBuilder) -> None:
        stream: Any = records(builder)
        if of_length:
            stream = stream.map_values(len, value=int)
        kept = stream.select_key(lambda key, _: key, key=str)
        kept.repartition(name=name).group_by_key().count(store=store)

    return declare


def rekeyed(builder: StreamsBuilder) -> None:
    """Counts by a number; the only topology here that reads other keys."""
    numbers = builder.stream(INPUT, key=int, value=str)
    numbers.group_by_key().aggregate(lambda: 0, lambda _, __, n: n + 1, value=int, store="counts")


def windowed(
    size_s: int = 10,
    *,
    name: str = "counts",
    retention_s: int | None = None,
    idle: timedelta | None = None,
    **options: Any,
) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        retention = None if retention_s is None else timedelta(seconds=retention_s)
        size = timedelta(seconds=size_s)
        window = TumblingWindows(size=size, grace=timedelta(0), close_on_idle=idle)
        store = Materialized(name, retention=retention, **options)
        records(builder).group_by_key().windowed_by(window).count(store=store)

    return declare


def hopping(advance_s: int) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        window = HoppingWindows(size=timedelta(seconds=10), advance=timedelta(seconds=advance_s))
        records(builder).group_by_key().windowed_by(window).count(store="counts")

    return declare


def sliding(builder: StreamsBuilder) -> None:
    window = SlidingWindows(difference=timedelta(seconds=10))
    records(builder).group_by_key().windowed_by(window).count(store="counts")


def sessions(gap_s: int = 10) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        window = SessionWindows(gap=timedelta(seconds=gap_s), grace=timedelta(0))
        records(builder).group_by_key().windowed_by(window).count(store="counts")

    return declare


def ranked(n: int) -> Declare:
    """The greatest texts of each key."""

    def declare(builder: StreamsBuilder) -> None:
        groups = records(builder).group_by_key()
        groups.top_n(n, by=lambda text: text, score=str, store="best")

    return declare


def sorted_by_time(grace_s: int) -> Declare:
    """Counts of sorted records, of which the last ones wait."""

    def declare(builder: StreamsBuilder) -> None:
        waiting = records(builder).sort_by_time(timedelta(seconds=grace_s), store="waiting")
        waiting.group_by_key().count(store="counts")

    return declare


def throttled(n: int) -> Declare:
    """Counts of the first records of each day."""

    def declare(builder: StreamsBuilder) -> None:
        few = records(builder).throttle(n, TumblingWindows(size=DAY), store="few")
        few.group_by_key().count(store="counts")

    return declare


def suppressed(wait_s: int, name: str = "held") -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        table = records(builder).group_by_key().count(store="counts")
        until = until_time_limit(timedelta(seconds=wait_s))
        table.suppress(until, name=name).to_stream().foreach(lambda _: None)

    return declare


def versioned(history_s: int) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        store = Materialized("rows", history=timedelta(seconds=history_s))
        builder.table(INPUT, key=str, value=str, store=store)

    return declare


def plain_table(builder: StreamsBuilder) -> None:
    builder.table(INPUT, key=str, value=str, store=Materialized("rows"))


def totals(kind: type[Any]) -> Declare:
    """Aggregates into a struct, which counts whatever its other fields are."""

    def add(_: str, __: str, total: Any) -> Any:
        return msgspec.structs.replace(total, count=total.count + 1)

    return aggregated(lambda: kind(count=0), add, json_of(kind))


def aggregates(**aggregates: Aggregate[Any, Any, Any]) -> Declare:
    """Each key's aggregates, as one record."""
    return lambda builder: records(builder).group_by_key().agg(**aggregates, store="counts")


def aggregated(initial: Any, add: Any, value: Any) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        grouped = records(builder).group_by_key()
        grouped.aggregate(initial, add, value=value, store="counts")

    return declare


def counted_up(total: Any) -> Tally:
    """From version 1 to version 2."""
    return Tally((total.count, 0))


#: the serde of Total, and what became of it
VERSION_1 = upgradable(Total, version=1)
VERSION_2 = upgradable(Tally, version=2, earlier={1: (Total, counted_up)})
VERSION_2_OF_ROWS_WITHOUT = upgradable(
    Tally, version=2, earlier={1: (Total, counted_up)}, unversioned=1
)
VERSION_2_ALONE = upgradable(Tally, version=2)


def versions(serde: Any) -> Declare:
    """Counts, in the type of the first or of the second version."""

    def add(_: str, __: str, total: Any) -> Any:
        if isinstance(total, Total):
            return Total(total.count + 1)
        now, later = total.counts
        return Tally((now + 1, later + 1))

    initial = Total if serde is VERSION_1 else lambda: Tally((0, 0))
    return aggregated(initial, add, serde)


def avro_schema(**extra: Any) -> dict[str, Any]:
    fields = [{"name": "count", "type": "long"}]
    fields += [{"name": name, **field} for name, field in extra.items()]
    return {"type": "record", "name": "Total", "fields": fields}


def avro_total(schema: dict[str, Any], **options: Any) -> Declare:

    def add(_: str, __: str, total: dict[str, Any]) -> dict[str, Any]:
        return {**total, "count": total["count"] + 1}

    return aggregated(lambda: {"count": 0}, add, avro(schema, **options))
