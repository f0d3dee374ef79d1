"""What waits for stream time, of every operator that has such rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.open_rows import OPEN_ROWS_MAX, OpenRows
from logstate.topology import (
    CountWindows,
    HoppingWindows,
    JoinWindows,
    KeyTimers,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    early,
    timer_store,
    until_time_limit,
    until_window_closes,
)
from tests.unit.logstate.task.task_bench import TaskBench


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


class Remind(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        self.timers = KeyTimers(context, "reminders", lambda key, at_ms: None)

    def process(self, record: Any) -> None:
        self.timers.set(record.key, record.timestamp + 50)


def final_counts(windows: Any) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
        grouped.count(store="counts", emit="close", name="open")

    return build


def suppressed(builder: StreamsBuilder) -> None:
    windows = TumblingWindows(size=ms(10), grace=ms(5))
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    grouped.count(store="counts").suppress(until_window_closes(), name="open")


def limited(builder: StreamsBuilder) -> None:
    table = builder.table("in", key=str, value=str, store="rows")
    table.suppress(until_time_limit(ms(30)), name="open")


def unmatched(builder: StreamsBuilder) -> None:
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "right"))
    near = JoinWindows(before=ms(1), after=ms(7), grace=ms(2))
    left.left_join(right, lambda one, other: one, windows=near, name="open", value=str)


def priced(builder: StreamsBuilder) -> None:
    history = Materialized("rates", history=ms(1_000))
    rates = builder.table("right", key=str, value=str, store=history)
    orders = builder.stream("in", key=str, value=str)
    orders.join(rates, lambda order, rate: rate, grace=ms(20), name="open", value=str)


def by_number(builder: StreamsBuilder) -> None:
    windows = CountWindows(3, timeout=ms(40))
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    grouped.count(store="counts", name="open")


def with_last(builder: StreamsBuilder) -> None:
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "right"))
    options = {"within": (ms(1), ms(7)), "grace": ms(2), "match": "last", "name": "open"}
    left.interval_join(right, lambda one, other: one, value=str, **options)


def in_panes(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(TUMBLING)
    grouped.count(store="counts").to_pane_stream(early(every=ms(4)), name="open")


def reminded(builder: StreamsBuilder) -> None:
    stores = timer_store("reminders", str)
    carts = builder.stream("in", key=str, value=str)
    carts.process(Remind, stores=stores, key=str, value=str, name="open")


TUMBLING = TumblingWindows(size=ms(10), grace=ms(5))


@pytest.mark.parametrize(
    ("build", "at_103", "at_117"),
    [
        pytest.param(final_counts(TUMBLING), OpenRows(2, 115, 103), OpenRows(1, 125, 117)),
        pytest.param(
            final_counts(HoppingWindows(size=ms(20), advance=ms(10), grace=ms(0))),
            OpenRows(4, 110, 103),
            OpenRows(3, 120, 117),
        ),
        pytest.param(
            final_counts(SlidingWindows(difference=ms(20), grace=ms(0))),
            OpenRows(2, 102, 103),
            OpenRows(2, 118, 117),
        ),
        pytest.param(
            final_counts(SessionWindows(gap=ms(6), grace=ms(2))),
            OpenRows(2, 110, 103),
            OpenRows(1, 126, 117),
        ),
        pytest.param(suppressed, OpenRows(2, 115, 103), OpenRows(1, 125, 117)),
        pytest.param(limited, OpenRows(2, 131, 103), OpenRows(2, 131, 117)),
        pytest.param(unmatched, OpenRows(2, 111, 103), OpenRows(1, 127, 117)),
        pytest.param(priced, OpenRows(2, 121, 103), OpenRows(3, 121, 117)),
        pytest.param(by_number, OpenRows(2, 141, 103), OpenRows(2, 141, 117)),
        pytest.param(with_last, OpenRows(2, 111, -1), OpenRows(3, 111, -1)),
        pytest.param(in_panes, OpenRows(2, 105, 103), OpenRows(1, 120, 117)),
        pytest.param(reminded, OpenRows(2, 151, 103), OpenRows(3, 151, 117)),
    ],
)
def test_an_operator_counts_its_open_rows_and_names_the_time_of_the_first(
    build: Callable[[StreamsBuilder], None], at_103: OpenRows, at_117: OpenRows
) -> None:
    bench = TaskBench(build)
    node = {unmatched: "open-this-join", with_last: "open-left-side"}.get(build, "open")
    operators = bench.task.open_operators
    assert operators.look(lambda: 0.0) == {node: OpenRows(0, None, -1)}
    if len(bench.task.queues) == 2:
        bench.end("right")
    bench.add("in", ("a", "1", 101), ("b", "1", 103))
    bench.task.process(10)
    assert operators.look(lambda: 20_000.0) == {node: at_103}
    bench.commit()
    bench.clock.advance(2_000)
    bench.add("in", ("a", "1", 117))
    bench.task.process(10)
    assert operators.look(lambda: 40_000.0) == {node: at_117}


def test_windows_of_updates_are_not_counted_because_nothing_of_them_waits() -> None:
    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(TUMBLING)
        grouped.count(store="counts", name="sent")

    bench = TaskBench(build)
    bench.add("in", ("a", "1", 101))
    bench.task.process(10)
    assert bench.task.open_operators.look(lambda: 0.0) == {}


def test_no_more_than_a_thousand_rows_are_read() -> None:
    bench = TaskBench(final_counts(TUMBLING))
    bench.add("in", *((f"k{n}", "1", 101) for n in range(OPEN_ROWS_MAX + 5)))
    bench.task.process(OPEN_ROWS_MAX + 5)
    found = bench.task.open_operators.look(lambda: 0.0)
    assert found == {"open": OpenRows(OPEN_ROWS_MAX, 115, 101)}


def test_a_look_changes_nothing_that_a_commit_has() -> None:
    def commit_of(*, looks: bool) -> Any:
        bench = TaskBench(final_counts(TUMBLING))
        for at in (101, 103, 117):
            bench.add("in", ("a", "1", at))
            bench.task.process(10)
            if looks:
                bench.task.open_operators.look(lambda at=at: at * 1e6)  # type: ignore[misc]
        commit = bench.commit()
        changes = commit.changes
        layers = {name: layer.rows for name, layer in changes.layers.items()}
        return commit.outputs, changes.writes, changes.clocks, layers

    assert commit_of(looks=True) == commit_of(looks=False)


def test_rows_that_cannot_be_read_are_left_out_until_they_fail_where_they_are_used() -> None:
    bench = TaskBench(suppressed)

    def fails() -> OpenRows:
        raise ValueError("a serde")

    bench.task.show_open("broken", fails)
    assert bench.task.open_operators.look(lambda: 0.0) == {"open": OpenRows(0, None, -1)}
