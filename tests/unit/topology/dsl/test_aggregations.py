"""What one declaration makes of every kind of grouped stream: its store, its keys, its errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KGroupedStream,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
)

TEN, FIVE, TWO = (timedelta(milliseconds=ms) for ms in (10, 5, 2))
#: windows, kind of store, retention, window size, how errors name a stream's and a cogroup's
WINDOWS: dict[str, tuple[Any, str, int | None, int | None, str, str]] = {
    "none": (None, "timestamped_key_value", None, None, "An aggr", "A cogroup aggr"),
    "tumbling": (
        *(TumblingWindows(size=TEN, grace=TWO), "timestamped_window", 12, 10),
        *("A windowed aggr", "A windowed cogroup aggr"),
    ),
    "hopping": (
        *(HoppingWindows(size=TEN, advance=FIVE, grace=TWO), "timestamped_window", 12, 10),
        *("A windowed aggr", "A windowed cogroup aggr"),
    ),
    "sliding": (
        *(SlidingWindows(difference=TEN, grace=TWO), "timestamped_window", 22, 10),
        *("A windowed aggr", "A windowed cogroup aggr"),
    ),
    "sessions": (
        *(SessionWindows(gap=TEN, grace=TWO), "session", 12, None),
        *("A session aggr", "A windowed cogroup aggr"),
    ),
}


def grouped(builder: StreamsBuilder, topic: str = "in") -> KGroupedStream[str, int]:
    return builder.stream(topic, key=str, value=int).group_by_key()


def one_group(windows: Any, **options: Any) -> Any:
    group: Any = grouped(StreamsBuilder())
    return (group if windows is None else group.windowed_by(windows)).count(**options)


def two_groups(windows: Any, into: StreamsBuilder | None = None, **options: Any) -> Any:
    builder = into or StreamsBuilder()
    both: Any = grouped(builder).cogroup(lambda total, n: total + n)
    both = both.cogroup(grouped(builder, "other"), lambda total, n: total - n)
    merger = (lambda a, b: a + b,) if isinstance(windows, SessionWindows) else ()
    both = both if windows is None else both.windowed_by(windows)
    return both.aggregate(int, *merger, value=int, **options)


@pytest.mark.parametrize("name", WINDOWS)
def test_one_group_and_several_keep_rows_as_long_as_their_windows_need(name: str) -> None:
    windows, kind, retention_ms, size_ms, _, _ = WINDOWS[name]
    for make in (one_group, two_groups):
        store = make(windows, store="s").node.store
        assert (store.kind, store.retention_ms, store.window_size_ms) == (
            kind,
            retention_ms,
            size_ms,
        )


@pytest.mark.parametrize("name", WINDOWS)
def test_an_aggregation_without_a_store_is_refused_by_its_kind(name: str) -> None:
    windows, *_, stream, cogroup = WINDOWS[name]
    with pytest.raises(TopologyError, match=f"^{stream}egation needs a name for its store"):
        one_group(windows)
    with pytest.raises(TopologyError, match=f"^{cogroup}egation needs a name for its store"):
        two_groups(windows)


def test_final_results_keep_closed_windows_readable_and_need_windows() -> None:
    with pytest.raises(TopologyError, match='emit="close"'):
        one_group(None, store="s", emit="close")
    for name in ("tumbling", "hopping", "sliding", "sessions"):
        for make in (one_group, two_groups):
            store = make(WINDOWS[name][0], store="s", emit="close").node.store
            assert store.keep_at_retention


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tumbling", [("a", 0, 10, 2)]),
        ("hopping", [("a", 0, 10, 2), ("a", 5, 15, -1)]),
        ("sliding", [("a", 0, 10, 2), ("a", 4, 14, -1)]),
        ("sessions", [("a", 3, 7, 2)]),
    ],
)
def test_final_results_of_several_groups_are_sent_once(
    name: str, expected: list[tuple[str, int, int, int]]
) -> None:
    builder = StreamsBuilder()
    sent: list[tuple[str, int, int, int]] = []
    store = Materialized("s", retention=timedelta(seconds=1))
    table = two_groups(WINDOWS[name][0], builder, store=store, emit="close")
    table.to_stream().foreach(
        lambda window, total: sent.append((window.key, window.start_ms, window.end_ms, total))
    )
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe("in", "a", 3, timestamp=3)
        driver.pipe("other", "a", 1, timestamp=7)
        driver.crash()
        driver.pipe("other", "b", 1, timestamp=100)
    assert sent == expected
