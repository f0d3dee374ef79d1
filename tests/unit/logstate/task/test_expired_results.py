"""Final results that expired are counted, and told once in a while with what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.topology import StreamsBuilder, TumblingWindows
from tests.unit.logstate.task.task_bench import TaskBench


def final_counts(builder: StreamsBuilder) -> None:
    windows = TumblingWindows(size=timedelta(milliseconds=10))
    clicks = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    clicks.count(store="counts", emit="close").to_stream(lambda w, n: w.key).to("out", key=str)


def test_the_first_of_many_leaves_a_line_with_the_store_the_place_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = TaskBench(final_counts)
    bench.pipe("in", ("a", "v", 5), ("a", "v", 100), ("a", "v", 200), ("a", "v", 300))

    assert bench.task.expired_results.counts == {"counts": 3}
    (line,) = caplog.messages
    for part in (
        "task 0_0: 1 final results of store 'counts' expired before they were sent, 1 so far",
        "record at 'in', partition 0, offset 1, timestamp 100",
        "retention of 10 ms",
        "Materialized('counts', retention=",
        "suppress(until_window_closes())",
        "docs/late-records.md",
    ):
        assert part in line


def test_a_later_line_says_how_many_there_were_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    bench = TaskBench(final_counts)
    bench.pipe("in", ("a", "v", 5), ("a", "v", 100), ("a", "v", 200), ("a", "v", 300))
    bench.clock.advance(10_000)
    bench.pipe("in", ("a", "v", 400))

    assert [line[:49] for line in caplog.messages] == [
        "task 0_0: 1 final results of store 'counts' expir",
        "task 0_0: 3 final results of store 'counts' expir",
    ]
