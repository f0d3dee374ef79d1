"""The application that is read: a store of every kind, and a content that its inputs decide alone.

All streams that are joined come from one topic, so a task that reads it processes its records in
the order of their offsets whenever it runs, and a prefix of the topic decides every store. Nothing
looks at the wall clock.
"""

from __future__ import annotations

import zlib
from datetime import timedelta
from pathlib import Path

from logstate.app.application import Application
from logstate.contracts.records import Record
from logstate.topology import (
    JoinWindows,
    KGroupedStream,
    KStream,
    Materialized,
    Processor,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    key_value_store,
    lru_store,
    until_window_closes,
)

PARTITIONS = 2
#: one letter in front of each event tells what it is
ORDER, PAYMENT, MARK = "o", "p", "m"
EVENTS, BASKETS, ITEMS = "events", "baskets", "items"
INPUTS = (EVENTS, BASKETS, ITEMS)
OUTPUTS = ("final", "paid", "marked", "priced")
#: a mark that is taken away again
NO_MARK = "m-none"
HISTORY = timedelta(seconds=20)


def numbered(aggregate: str, value: str) -> str:
    """How many, and a checksum of all in their order: ``"3:1f2e3d4c"``."""
    count, _, _ = aggregate.partition(":")
    return f"{int(count) + 1}:{zlib.crc32((aggregate + value).encode()):08x}"


def region_of(order: str) -> str:
    """Where an order counts."""
    return f"r{zlib.crc32(order.encode()) % 9}"


class Remember(Processor[str, str, str, str]):
    """Keeps the newest order of each user, the users that ordered last, and every tenth order."""

    def process(self, record: Record[str, str]) -> None:
        if record.value.endswith("0"):  # a key that never comes again
            self.context.store("orders").put(record.value, record.key)
        self.context.store("seen").put(record.key, record.value)
        self.context.store("recent").put(record.key, record.value)


def topology(prefix: str) -> Topology:
    """The topology; every topic carries the prefix of one run."""
    builder = StreamsBuilder(outer_join_emit_interval=timedelta(0))
    events = builder.stream(f"{prefix}-{EVENTS}", key=str, value=str)
    orders = events.filter(lambda event: event.startswith(ORDER))
    _add_aggregates(orders.group_by_key(), prefix)
    _add_joins(events, orders, prefix)
    stores = [key_value_store(name, str, str) for name in ("seen", "orders")]
    stores.append(lru_store("recent", str, str, capacity=7))
    orders.process(Remember, stores=stores, key=str, value=str)
    by_region = orders.group_by(lambda _, order: region_of(order), name="by-region", key=str)
    by_region.aggregate(
        lambda: "0:", lambda _, order, known: numbered(known, order), value=str, store="regions"
    )
    baskets = builder.table(f"{prefix}-{BASKETS}", key=str, value=str, store="baskets")
    items = builder.table(f"{prefix}-{ITEMS}", key=str, value=str, store="items")
    priced = baskets.join(
        items,
        lambda basket, item: f"{basket} {item}",
        foreign_key=lambda basket: basket.partition(":")[0],
        store="priced",
        name="price",
        value=str,
    )
    priced.to_stream().to(f"{prefix}-priced", key=str, value=str)
    return builder.build()


def _add_aggregates(by_user: KGroupedStream[str, str], prefix: str) -> None:
    by_user.count(store="counts")
    by_user.aggregate(
        lambda: "0:",
        lambda _, order, known: numbered(known, order),
        value=str,
        store=Materialized("checks", in_memory=True),
    )
    windows = TumblingWindows(size=timedelta(seconds=5), grace=timedelta(seconds=1))
    windowed = by_user.windowed_by(windows).count(store="windows")
    final = windowed.suppress(until_window_closes(), name="final")
    final.to_stream(lambda window, _: window.key, key=str).to(f"{prefix}-final", key=str, value=int)
    sessions = SessionWindows(gap=timedelta(milliseconds=300), grace=timedelta(seconds=1))
    kept = Materialized("sessions", retention=timedelta(seconds=10))
    by_user.windowed_by(sessions).count(store=kept)


def _add_joins(events: KStream[str, str], orders: KStream[str, str], prefix: str) -> None:
    payments = events.filter(lambda event: event.startswith(PAYMENT))
    near = JoinWindows.symmetric(timedelta(milliseconds=200), grace=timedelta(seconds=1))
    paid = orders.left_join(payments, lambda o, p: f"{o}={p}", windows=near, name="paid")
    paid.to(f"{prefix}-paid", key=str, value=str)
    marks = (
        events.filter(lambda event: event.startswith(MARK))
        .map_values(lambda mark: None if mark == NO_MARK else mark, value=str)
        .to_table(store=Materialized("marks", history=HISTORY))
    )
    marked = orders.join(
        marks, lambda o, m: f"{o} {m}", grace=timedelta(seconds=2), name="marked", left_value=str
    )
    marked.to(f"{prefix}-marked", key=str, value=str)


def application(bootstrap: str, prefix: str, state_dir: Path) -> Application:
    """An instance; it commits and checkpoints often, so that kills hit both."""
    return Application(
        topology(prefix),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=100),
        checkpoint_interval=timedelta(milliseconds=500),
    )
