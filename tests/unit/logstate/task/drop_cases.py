"""Topologies and records of which some are dropped: every place that drops is among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from logstate.serdes import string
from logstate.serdes.join_serdes import Instruction, Subscription, SubscriptionSerde
from logstate.topology import (
    CountWindows,
    HoppingWindows,
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    window_store,
)
from tests.unit.logstate.task.task_bench import topology_of

#: topic, key, value, timestamp
Piped = tuple[str, str | bytes | None, str | bytes | None, int]
#: the class of the node, the reason, how many, and the latest by so many ms
Expected = tuple[str, str, int, int]

SEGMENT_MS = 60_000


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


@dataclass(frozen=True)
class Case:
    """``expected``: nothing else is dropped."""

    name: str
    declare: Callable[[StreamsBuilder], object]
    piped: tuple[Piped, ...]
    expected: tuple[Expected, ...]
    optimization: str = "none"

    def topology(self) -> Topology:
        return topology_of(self.declare, optimization=self.optimization)


def at(*times: int) -> tuple[Piped, ...]:
    return tuple(("in", "k", "v", time) for time in times)


def words(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=str)


def windowed(windows: Any, **options: Any) -> Callable[[StreamsBuilder], object]:
    return lambda b: words(b).group_by_key().windowed_by(windows).count(store="n", **options)


def joined_streams(kind: str) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        other = builder.stream("other", key=str, value=str)
        join = getattr(words(builder), kind)
        join(other, pair, windows=JoinWindows.symmetric(ms(5)), name="j", key=str, value=str)

    return declare


def joined_in_an_interval(how: Any) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        stream, within = words(builder), (ms(5), ms(5))
        stream.interval_join(stream, pair, how=how, within=within, match="first", name="j")

    return declare


def joined_tables(kind: str = "join", **options: Any) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        left = builder.table("in", key=str, value=str, store=store_of("left", **options))
        right = builder.table("other", key=str, value=str, store=store_of("right", **options))
        getattr(left, kind)(right, pair)

    return declare


def joined_by_foreign_key(**options: Any) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        left = builder.table("in", key=str, value=str, store=store_of("left", **options))
        right = builder.table("other", key=str, value=str, store=store_of("right", **options))
        left.join(right, pair, foreign_key=lambda v: v or None, name="fk", value=str)

    return declare


def with_table(kind: str, **options: Any) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        versions = {"history": ms(1_000)} if options else {}
        table = builder.table("other", key=str, value=str, store=store_of("t", **versions))
        getattr(words(builder), kind)(table, pair, value=str, **options)

    return declare


def with_global_table(kind: str) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        table = builder.global_table("other", key=str, value=str, store="t")
        getattr(words(builder), kind)(table, pair, key_mapper=lambda k, v: v or None, value=str)

    return declare


def store_of(name: str, **options: Any) -> Any:
    return Materialized(name, **options) if options else name


def pair(left: Any, right: Any) -> str:
    return f"{left}{right}"


class Putting(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.store("kept").put(record.key, record.value, record.timestamp)


def kept_in(*, in_memory: bool) -> Callable[[StreamsBuilder], object]:
    spec = window_store("kept", str, str, size=ms(1), retention=ms(SEGMENT_MS), in_memory=in_memory)
    return lambda b: words(b).process(Putting, stores=[spec], key=str, value=str)


def joined_with_itself(builder: StreamsBuilder) -> None:
    stream = words(builder)
    windows = JoinWindows.symmetric(ms(5))
    stream.join(stream, pair, windows=windows, name="j", key=str, value=str)


def asked_without_a_foreign_key() -> bytes:
    told = Subscription(b"\0" * 16, Instruction.SUBSCRIBE_AND_ANSWER_IF_FOUND, "k", 0)
    return SubscriptionSerde(string).serializer("t", False)(told)


def before_epoch(builder: StreamsBuilder) -> None:
    extractor = lambda key, value, timestamp, partition_time: timestamp - 10  # noqa: E731
    builder.stream("in", key=str, value=str, timestamp_extractor=extractor).to("out")


TUMBLING = TumblingWindows(size=ms(10), grace=ms(3))
SLIDING = SlidingWindows(difference=ms(10), grace=ms(3))
SESSIONS = SessionWindows(gap=ms(10), grace=ms(3))
NO_KEY = (("in", None, "v", 1),)
DUPLICATE = (("DistinctNode", "duplicate", 1, 0),)
NO_VALUE = (("in", "k", None, 1),)

CASES = [
    Case("source", before_epoch, at(3), (("SourceNode", "negative_timestamp", 1, 0),)),
    Case(
        "table",
        lambda b: b.table("in", key=str, value=str),
        NO_KEY,
        (("TableSourceNode", "null_key", 1, 0),),
    ),
    Case(
        "table with a store",
        lambda b: b.table("in", key=str, value=str, store="t"),
        NO_KEY,
        (("TableSourceNode", "null_key", 1, 0),),
    ),
    Case(
        "global table",
        lambda b: (
            b.global_table("in", key=str, value=str, store="t"),
            b.stream("other", key=str, value=str).to("out"),
        ),
        NO_KEY,
        (("TableSourceNode", "null_key", 1, 0),),
    ),
    Case(
        "history",
        lambda b: b.table("in", key=str, value=str, store=store_of("t", history=ms(100))),
        at(1_000, 890),
        (("TableSourceNode", "expired", 1, 10),),
    ),
    Case(
        "repartition",
        lambda b: words(b).group_by(lambda v: v or None, key=str, name="by").count(store="n"),
        (("in", "k", "", 1),),
        (("RepartitionFilterNode", "null_group_key", 1, 0),),
    ),
    Case(
        "partitioner",
        lambda b: words(b).to("out", partitioner=lambda *_: []),
        at(1, 2),
        (("SinkNode", "partitioner", 2, 0),),
    ),
    Case(
        "deduplicate",
        lambda b: words(b).deduplicate_by_key(ms(10), store="n"),
        (*NO_KEY, *at(100, 95, 89, 90)),
        (("DeduplicateNode", "duplicate", 2, 0), ("DeduplicateNode", "late", 1, 1)),
    ),
    Case("distinct", lambda b: words(b).distinct(store="n"), (*NO_KEY, *at(9, 5)), DUPLICATE),
    Case(
        "distinct in windows",
        lambda b: words(b).distinct(store="n", windows=TUMBLING),
        at(100, 105, 89, 200, 104),
        (("DistinctNode", "duplicate", 1, 0), ("DistinctNode", "late", 2, 88)),
    ),
    Case(
        "throttle",
        lambda b: words(b).throttle(1, TUMBLING, store="n"),
        at(100, 105, 89, 200, 104),
        (("DistinctNode", "throttled", 1, 0), ("DistinctNode", "late", 2, 88)),
    ),
    Case(
        "scan",
        lambda b: words(b).scan(int, lambda n, _: (n, n), state=int, store="n"),
        (*NO_KEY, *NO_VALUE),
        (("ScanNode", "null_key", 1, 0), ("ScanNode", "null_value", 1, 0)),
    ),
    Case(
        "sort by time",
        lambda b: words(b).sort_by_time(ms(5), store="n"),
        at(100, 110, 99),
        (("SortByTimeNode", "late", 1, 1),),
    ),
    Case(
        "top n",
        lambda b: words(b).group_by_key().top_n(1, len, score=int, store="n"),
        NO_KEY + NO_VALUE,
        (("TopNNode", "null_key", 1, 0), ("TopNNode", "null_value", 1, 0)),
    ),
    Case(
        "count windows",
        lambda b: words(b).group_by_key().windowed_by(CountWindows(2)).count(store="n"),
        NO_KEY + NO_VALUE,
        (("CountWindowNode", "null_key", 1, 0), ("CountWindowNode", "null_value", 1, 0)),
    ),
    Case(
        "count",
        lambda b: words(b).group_by_key().count(store="n"),
        NO_KEY + NO_VALUE,
        (("AggregateNode", "null_key", 1, 0), ("AggregateNode", "null_value", 1, 0)),
    ),
    Case(
        "tumbling",
        windowed(TUMBLING),
        NO_KEY + at(100, 89, 80, 90),
        (("WindowAggregateNode", "null_key", 1, 0), ("WindowAggregateNode", "late", 2, 8)),
    ),
    Case(
        "tumbling, final",
        windowed(TUMBLING, emit="close"),
        at(100, 85),
        (("WindowAggregateNode", "late", 1, 8),),
    ),
    Case(
        "hopping",
        windowed(HoppingWindows(size=ms(10), advance=ms(5), grace=ms(3))),
        at(100, 85),
        (("WindowAggregateNode", "late", 2, 8),),
    ),
    Case(
        "sliding",
        windowed(SLIDING),
        NO_KEY + NO_VALUE + at(100, 80),
        (
            ("SlidingAggregateNode", "null_key", 1, 0),
            ("SlidingAggregateNode", "null_value", 1, 0),
            ("SlidingAggregateNode", "late", 1, 17),
        ),
    ),
    Case(
        "sliding, one of its windows",
        windowed(SLIDING),
        at(100, 90),
        (("SlidingAggregateNode", "late", 1, 7),),
    ),
    Case(
        "sessions",
        windowed(SESSIONS),
        NO_KEY + at(100, 80),
        (("SessionAggregateNode", "null_key", 1, 0), ("SessionAggregateNode", "late", 1, 7)),
    ),
    Case(
        "a processor's store",
        kept_in(in_memory=False),
        at(10 * SEGMENT_MS, 8 * SEGMENT_MS),
        (("ProcessNode", "expired", 1, SEGMENT_MS),),
    ),
    Case(
        "a processor's store in memory",
        kept_in(in_memory=True),
        at(10 * SEGMENT_MS, 8 * SEGMENT_MS),
        (("ProcessNode", "expired", 1, SEGMENT_MS + 1),),
    ),
    *(
        Case(
            f"stream {kind}",
            joined_streams(kind),
            NO_KEY + NO_VALUE,
            (
                *((("StreamJoinNode", "null_key", 1, 0),) if kind == "join" else ()),
                ("StreamJoinNode", "null_value", 1, 0),
            ),
        )
        for kind in ("join", "left_join", "outer_join")
    ),
    *(
        Case(
            f"interval join, {how}",
            joined_in_an_interval(how),
            NO_KEY + NO_VALUE,
            (
                ("IntervalRightNode", "null_key", 1, 0),
                *((("IntervalLeftNode", "null_key", 1, 0),) if how == "inner" else ()),
                ("IntervalLeftNode", "null_value", 1, 0),
            ),
        )
        for how in ("inner", "left")
    ),
    Case(
        "stream join, rows of a side that are too old to keep",
        joined_streams("join"),
        at(10 * SEGMENT_MS, 1),
        (("StreamJoinWindowNode", "expired", 1, 10 * SEGMENT_MS - 11),),
    ),
    Case(
        "stream join with itself",
        joined_with_itself,
        NO_KEY + NO_VALUE,
        (("SelfJoinNode", "null_key", 1, 0), ("SelfJoinNode", "null_value", 1, 0)),
        optimization="all",
    ),
    *(
        Case(
            f"table {kind}",
            with_table(kind),
            NO_KEY + NO_VALUE,
            (
                *((("StreamTableJoinNode", "null_key", 1, 0),) if kind == "join" else ()),
                ("StreamTableJoinNode", "null_value", 1, 0),
            ),
        )
        for kind in ("join", "left_join")
    ),
    Case(
        "table join with grace",
        with_table("join", grace=ms(5), name="j"),
        NO_KEY + NO_VALUE,
        (
            ("StreamTableGraceJoinNode", "null_key", 1, 0),
            ("StreamTableGraceJoinNode", "null_value", 1, 0),
        ),
    ),
    Case(
        "global table join",
        with_global_table("join"),
        (*NO_VALUE, ("in", "k", "", 1)),
        (
            ("GlobalTableJoinNode", "null_value", 1, 0),
            ("GlobalTableJoinNode", "null_mapped_key", 1, 0),
        ),
    ),
    Case(
        "join of versioned tables",
        joined_tables(history=ms(1_000)),
        at(100, 50),
        (("TableJoinNode", "out_of_order", 1, 0),),
    ),
    Case(
        "foreign key",
        joined_by_foreign_key(),
        (("in", "k", "", 1),),
        (("SubscriptionSendNode", "null_foreign_key", 1, 0),),
    ),
    Case(
        "a foreign key's subscription",
        joined_by_foreign_key(),
        (("app-fk-subscription-registration-topic", None, asked_without_a_foreign_key(), 1),),
        (("SubscriptionReceiveNode", "null_foreign_key", 1, 0),),
    ),
    Case(
        "an answer to a row of before",
        joined_by_foreign_key(),
        (("app-fk-subscription-response-topic", "k", b"\0" * 17 + b"r", 1),),
        (("SubscriptionResolveNode", "stale_response", 1, 0),),
    ),
    Case(
        "foreign key of versioned tables",
        joined_by_foreign_key(history=ms(1_000)),
        (*at(100, 50), ("other", "v", "r", 100), ("other", "v", "r", 50)),
        (
            ("SubscriptionSendNode", "out_of_order", 1, 0),
            ("SubscriptionUpdateNode", "out_of_order", 1, 0),
        ),
    ),
]
