"""Topologies with late streams, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from logstate.contracts.late_record import LateRecord
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
)

#: key, value, time
Input = tuple[str, str, int]


Declare = Callable[[StreamsBuilder, "str | None"], None]


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=20).map(
    lambda drawn: [(key, str(number), time) for number, (key, time) in enumerate(drawn)]
)


GRACES = st.sampled_from([0, 1, 7])


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def to_out(table: KTable[Any, Any]) -> None:
    table.to_stream(lambda window, _: f"{window.key}@{window.start_ms}-{window.end_ms}").to(
        "out", key=str, value=int
    )


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=str).group_by_key()


def windowed(windows: Any, **options: Any) -> Declare:
    """A count in windows, which keeps sessions as long as they are open."""
    store = Materialized("n", retention=ms(1_000)) if isinstance(windows, SessionWindows) else "n"

    def declare(builder: StreamsBuilder, late: str | None) -> None:
        to_out(
            grouped(builder)
            .windowed_by(windows)
            .count(store=store, name="count", late=late, **options)
        )

    return declare


def driver_of(declare: Declare, late: str | None = "late", **settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    declare(builder, late)
    if late is not None:
        builder.late(late, key=str, value=str).to("late")
    return TopologyTestDriver(builder.build(), **settings)


def late_of(driver: TopologyTestDriver) -> list[LateRecord[str, str | None]]:
    return [late for _, late in driver.read("late", value=LateRecord[str, str | None])]


def missed(late: Sequence[LateRecord[str, Any]]) -> list[tuple[Any, Any, Any, int]]:
    """Value, start and end of the missed window, and by how much."""
    return [
        (one.value, *(one.window[1:] if one.window else (None, None)), one.by_ms) for one in late
    ]
