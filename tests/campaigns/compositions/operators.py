"""Operators that logstate has and Kafka Streams has not, each drawn on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.records import Record
from logstate.topology import (
    Count,
    CountDistinct,
    CountWindows,
    JoinWindows,
    KeyTimers,
    KGroupedStream,
    KStream,
    Materialized,
    Max,
    Mean,
    Processor,
    ProcessorContext,
    Sum,
    TumblingWindows,
    counter_store,
    list_store,
    map_store,
    timer_store,
    until_time_limit,
    until_window_closes,
)
from tests.campaigns.compositions.drawing import Drawing, Numbers, ms, size_of

Operator = Callable[[Drawing, Numbers], None]


def itself(value: int) -> int:
    return value


def joined(left: Any, right: Any) -> int:
    first, second = (one if isinstance(one, int) else size_of(one) for one in (left, right))
    return (first * 3 + second) % 17


def tumbling() -> TumblingWindows:
    return TumblingWindows(size=ms(20), grace=ms(5))


# --- records --------------------------------------------------------------------------------------


def select_key(drawing: Drawing, stream: Numbers) -> None:
    keyed = stream.select_key(lambda _, value: f"k{value % 3}", key=str)
    drawing.add(keyed.repartition(name=drawing.name("again"), key=str, value=int))


def merge(drawing: Drawing, stream: Numbers) -> None:
    drawing.add(stream.merge(other(drawing, stream), name=drawing.name("merged")))


def distinct(drawing: Drawing, stream: Numbers) -> None:
    name = drawing.name("distinct")
    drawing.add(stream.distinct(lambda value: value % 4, id=int, store=drawing.store(), name=name))


def distinct_in_windows(drawing: Drawing, stream: Numbers) -> None:
    drawing.add(
        stream.distinct(
            lambda value: value % 4,
            id=int,
            windows=tumbling(),
            store=drawing.name("store"),
            name=drawing.name("distinct"),
            late=drawing.late(),
        )
    )


def throttle(drawing: Drawing, stream: Numbers) -> None:
    names = {"store": drawing.name("store"), "name": drawing.name("throttle")}
    drawing.add(stream.throttle(drawing.choice(1, 2), tumbling(), **names, late=drawing.late()))


def deduplicate(drawing: Drawing, stream: Numbers) -> None:
    names = {"store": drawing.name("store"), "name": drawing.name("deduplicated")}
    drawing.add(stream.deduplicate_by_key(ms(12), **names, late=drawing.late()))


def sample(drawing: Drawing, stream: Numbers) -> None:
    name = drawing.name("sample")
    is_counted = drawing.is_likely(0.5)
    found = stream.sample(every=2, name=name) if is_counted else stream.sample(0.6, name=name)
    drawing.add(found)


def scan(drawing: Drawing, stream: Numbers) -> None:
    def step(state: int, value: int) -> tuple[int | None, int]:
        return None if value == 5 else state + value, (state + value) % 11

    name = drawing.name("scan")
    drawing.add(stream.scan(int, step, state=int, value=int, store=drawing.store(), name=name))


def sort_by_time(drawing: Drawing, stream: Numbers) -> None:
    drawing.add(
        stream.sort_by_time(
            ms(drawing.choice(5, 15)),
            store=drawing.name("store"),
            name=drawing.name("sorted"),
            late=drawing.late(),
            close_on_idle=drawing.idle(),
        )
    )


def batch(drawing: Drawing, stream: Numbers) -> None:
    names = {"store": drawing.name("store"), "name": drawing.name("batches")}
    batches = stream.batch(
        drawing.choice(2, 3), within=ms(15), close_on_idle=drawing.idle(), **names
    )
    drawing.add(batches.flatten(value=int, name=drawing.name("flat")))


def count_windows(drawing: Drawing, stream: Numbers) -> None:
    windows = CountWindows(
        3, step=drawing.choice(1, 2, 3), timeout=ms(15), close_on_idle=drawing.idle()
    )
    names = {"store": drawing.name("store"), "name": drawing.name("windows")}
    grouped = stream.group_by_key().windowed_by(windows)
    drawing.add(grouped.reduce(lambda first, second: (first + second) % 13, **names))


# --- tables ---------------------------------------------------------------------------------------


def grouped_stream(drawing: Drawing, stream: Numbers) -> KGroupedStream[str, int]:
    if drawing.is_likely(0.6):
        return stream.group_by_key()
    name = drawing.name("grouped")
    return stream.group_by(lambda _, value: f"g{value % 2}", key=str, name=name)


def aggregate(drawing: Drawing, stream: Numbers) -> None:
    grouped, name = grouped_stream(drawing, stream), drawing.name("aggregate")
    store = drawing.store()
    kind = drawing.choice("count", "sums", "others")
    if kind == "others":
        distinct_values = CountDistinct(itself, limit=3)
        emit = drawing.choice("update", "commit")
        options: dict[str, Any] = {"store": store, "emit": emit, "name": name}
        drawing.add_table(
            grouped.agg(high=Max(itself), mean=Mean(itself), values=distinct_values, **options)
        )
        return
    emit = drawing.choice("update", "commit", "delta")
    options = {"store": store, "emit": emit, "name": name}
    if kind == "count":
        drawing.add_table(grouped.count(**options), emit)
    else:
        drawing.add_table(grouped.agg(n=Count(), total=Sum(itself), **options), emit)


def aggregate_windows(drawing: Drawing, stream: Numbers) -> None:
    grouped = stream.group_by_key().windowed_by(drawing.windows())
    emit = drawing.choice("update", "update", "commit", "delta", "close", "close")
    options = {
        "store": drawing.window_store(),
        "emit": emit,
        "name": drawing.name("windows"),
        "late": drawing.late(),
    }
    if drawing.is_likely(0.5):
        table = grouped.count(**options)
    else:
        table = grouped.agg(n=Count(), total=Sum(itself), **options)
    is_suppressed = emit in ("update", "commit") and drawing.is_likely(0.3)
    if is_suppressed:
        table = table.suppress(until_window_closes(), name=drawing.name("final"))
    drawing.add_windows(table, emit, has_panes=emit == "update" and not is_suppressed)


def top_n(drawing: Drawing, stream: Numbers) -> None:
    options = {"store": drawing.name("store"), "emit": drawing.choice("update", "commit")}
    grouped = grouped_stream(drawing, stream)
    drawing.add_table(grouped.top_n(2, by=itself, name=drawing.name("top"), **options))


def to_table(drawing: Drawing, stream: Numbers) -> None:
    store = drawing.store()
    drawing.add_table(stream.to_table(store=store, name=drawing.name("table")))


def aggregate_table(drawing: Drawing, stream: Numbers) -> None:
    table = a_table(drawing, stream)
    grouped = table.group_by(
        lambda _, value: (f"t{size_of(value) % 2}", size_of(value)),
        key=str,
        value=int,
        name=drawing.name("grouped"),
    )
    name, store = drawing.name("aggregate"), drawing.name("store")
    options: dict[str, Any] = {
        "store": store,
        "emit": drawing.choice("update", "commit"),
        "name": name,
    }
    kind = drawing.choice("count", "sums", "top")
    if kind == "count":
        drawing.add_table(grouped.count(**options))
    elif kind == "sums":
        drawing.add_table(grouped.agg(n=Count(), total=Sum(itself), **options))
    else:
        drawing.add_table(grouped.top_n(2, by=itself, **options))


def suppress(drawing: Drawing, stream: Numbers) -> None:
    table = a_table(drawing, stream)
    held = table.suppress(until_time_limit(ms(10)), name=drawing.name("held"))
    updates = held.to_stream(name=drawing.name("updates"))
    drawing.add(updates.map_values(size_of, value=int, name=drawing.name("size")))


# --- joins ----------------------------------------------------------------------------------------


def other(drawing: Drawing, stream: Numbers) -> Numbers:
    return drawing.choice(*(one for one in drawing.streams if one is not stream))


def a_table(drawing: Drawing, stream: Numbers) -> Any:
    """Return a table that there is, or one of the stream."""
    if not drawing.tables:
        to_table(drawing, stream)
    return drawing.choice(*drawing.tables)


def interval_join(drawing: Drawing, stream: Numbers) -> None:
    how = drawing.choice("inner", "left", "outer")
    drawing.add(
        stream.interval_join(
            other(drawing, stream),
            joined,
            how=how,
            within=(ms(5), ms(10)),
            match="all" if how == "outer" else drawing.choice("all", "first", "last"),
            grace=ms(drawing.choice(0, 8)),
            close_on_idle=None if how == "inner" else drawing.idle(),
            store=drawing.name("store"),
            value=int,
            name=drawing.name("interval"),
            late=drawing.late(),
        )
    )


def as_of_join(drawing: Drawing, stream: Numbers) -> None:
    right: Any = other(drawing, stream)
    options: dict[str, Any] = {
        "how": drawing.choice("inner", "left"),
        "grace": ms(drawing.choice(2, 8)),
        "close_on_idle": drawing.idle(),
        "value": int,
        "name": drawing.name("as-of"),
        "late": drawing.late(),
    }
    if drawing.is_likely(0.5):
        options |= {"tolerance": ms(20), "store": drawing.name("store")}
    else:
        history = Materialized(drawing.name("store"), history=ms(60))
        right = right.to_table(store=history, name=drawing.name("table"))
    drawing.add(stream.as_of_join(right, joined, **options))


def stream_join(drawing: Drawing, stream: Numbers) -> None:
    join = drawing.choice(stream.join, stream.left_join, stream.outer_join)
    idle = None if join == stream.join else drawing.idle()
    windows = JoinWindows.symmetric(ms(10), grace=ms(5), close_on_idle=idle)
    options = {"windows": windows, "name": drawing.name("joined"), "late": drawing.late()}
    drawing.add(join(other(drawing, stream), joined, value=int, **options))


def table_join(drawing: Drawing, stream: Numbers) -> None:
    join = drawing.choice(stream.join, stream.left_join)
    name = drawing.name("joined")
    drawing.add(join(a_table(drawing, stream), joined, value=int, name=name))


# --- processors -----------------------------------------------------------------------------------


class Reminds(Processor[str, int, str, int]):
    """Sets a timer for each record."""

    def __init__(self, store: str) -> None:
        self._store = store

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self._timers: KeyTimers[str] = KeyTimers(context, self._store, self.remind)

    def process(self, record: Record[str, int]) -> None:
        self._timers.set(record.key, record.timestamp + record.value)
        self.context.forward(record)

    def remind(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(key, at_ms % 5, at_ms))


class Keeps(Processor[str, int, str, int]):
    """Changes a store for each record, and forwards what ``keep(store, record)`` returns."""

    def __init__(self, declaration: Any, keep: Callable[[Any, Record[str, int]], int]) -> None:
        self._declaration, self._keep = declaration, keep

    def process(self, record: Record[str, int]) -> None:
        kept = self._keep(self.context.store(self._declaration), record)
        self.context.forward(Record(record.key, kept % 19, record.timestamp))


def in_list(store: Any, record: Record[str, int]) -> int:
    store.append(record.key, record.value)
    return sum(store.values(record.key))


def in_map(store: Any, record: Record[str, int]) -> int:
    if record.value == 4:
        store.delete(record.key, 1)
    store.put(record.key, record.value % 5, record.value)
    return sum(value for _, value in store.items(record.key)) + (store.get(record.key, 2) or 0)


def in_counter(store: Any, record: Record[str, int]) -> int:
    store.add(record.key, record.value)
    return store.get(record.key) or 0


def timers(drawing: Drawing, stream: Numbers) -> None:
    store = drawing.name("timers")
    drawing.add(
        stream.process(
            lambda: Reminds(store),
            stores=timer_store(store, str),
            key=str,
            value=int,
            name=drawing.name("reminds"),
            close_on_idle=drawing.idle(),
        )
    )


def elements(drawing: Drawing, stream: Numbers) -> None:
    """Draw a list, a map or a counter."""
    name, limit = drawing.name("store"), drawing.choice(None, 3)
    ttl: dict[str, Any] = {"ttl": ms(20), "ttl_by": drawing.choice("stream_time", "wall_clock")}
    ttl["renew_on_read"] = drawing.is_likely(0.4)
    kind = drawing.choice("list", "map", "map", "counter")
    declaration: Any
    keep: Callable[[Any, Record[str, int]], int]
    if kind == "list":
        declaration, keep = list_store(name, str, int, max_size=limit), in_list
    elif kind == "map":
        options = {"max_size": limit} if drawing.is_likely(0.4) else ttl
        declaration, keep = map_store(name, str, int, int, **options), in_map
    else:
        options = {} if drawing.is_likely(0.4) else ttl
        declaration, keep = counter_store(name, str, **options), in_counter
    found: KStream[str, int] = stream.process(
        lambda: Keeps(declaration, keep),
        stores=declaration,
        key=str,
        value=int,
        name=drawing.name("keeps"),
    )
    drawing.add(found)


OPERATORS: tuple[Operator, ...] = (
    select_key,
    merge,
    distinct,
    distinct_in_windows,
    throttle,
    deduplicate,
    sample,
    scan,
    sort_by_time,
    batch,
    count_windows,
    aggregate,
    aggregate_windows,
    aggregate_windows,
    top_n,
    to_table,
    aggregate_table,
    suppress,
    interval_join,
    as_of_join,
    stream_join,
    table_join,
    timers,
    elements,
)
