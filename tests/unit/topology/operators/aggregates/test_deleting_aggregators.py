"""An aggregator that returns None deletes its row, and is asked whether that was meant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate import (
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
)


@pytest.mark.parametrize("kind", ["plain", "tumbling", "sliding", "session"])
def test_a_none_of_an_aggregator_is_told_once_with_its_line(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def driven(store: Materialized) -> None:
        builder = StreamsBuilder()
        grouped: Any = builder.stream("in", value=int).group_by_key()
        second = timedelta(seconds=1)
        if kind == "tumbling":
            grouped = grouped.windowed_by(TumblingWindows(size=second))
        elif kind == "sliding":
            grouped = grouped.windowed_by(SlidingWindows(difference=second))
        elif kind == "session":
            grouped = grouped.windowed_by(SessionWindows(gap=second))
        merger = (lambda a, b: a + b,) if kind == "session" else ()
        grouped.aggregate(int, lambda total, n: n or None, *merger, store=store, value=int)
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe_all("in", [("ada", 0, 2_000), ("ada", 0, 9_000), ("bob", 0, 10_000)])

    driven(Materialized("totals"))
    (said,) = [r.getMessage() for r in caplog.records if "returned None" in r.getMessage()]
    assert "test_deleting_aggregators.py" in said
    assert "Materialized('totals', deletes=True)" in said

    caplog.clear()
    driven(Materialized("totals", deletes=True))
    assert not caplog.records
