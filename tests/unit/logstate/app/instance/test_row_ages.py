"""Limits for the rows that an instance returns: its own, and those of other instances."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import pytest

from logstate.app.instance.row_ages import Limits, RowAge, exceeded, upstream_of
from logstate.topology import StreamsBuilder

SECOND = timedelta(seconds=1)
MOST = "most of it because of"
UNKNOWN = "have not included everything in its inputs since the task came there"
NONE_ABOVE: dict[int, frozenset[int]] = {}


def row(task: str = "0_0", age_s: float = 0.0, lag: int | None = 0, where: str = "") -> RowAge:
    return RowAge(task, where, age_s * 1_000, lag)


@pytest.mark.parametrize(
    ("limits", "rows", "why"),
    [
        (Limits(), [row(age_s=inf, lag=None)], None),
        (Limits(max_age=SECOND, max_lag=0), [], None),
        (Limits(max_lag=10), [row(lag=4), row("0_1", lag=6)], None),
        (
            Limits(max_lag=10),
            [row(lag=4), row("0_1", lag=7)],
            "its rows lack 11 input records, max_lag allows 10",
        ),
        (
            Limits(max_lag=10),
            [row(lag=8), row("0_1", lag=11, where="http://b")],
            "the rows of http://b lack 11 input records, max_lag allows 10",
        ),
        (
            Limits(max_lag=10),
            [row(lag=None)],
            "task 0_0 does not know the ends of its inputs yet",
        ),
        (Limits(max_age=SECOND), [row(age_s=1.0)], None),
        (
            Limits(max_age=SECOND),
            [row(age_s=0.2), row("0_1", age_s=1.1)],
            "its data is 1.1 s old, most of it because of task 0_1, max_age allows 1 s",
        ),
        (
            Limits(max_age=SECOND),
            [row(), row("0_1", age_s=70, where="http://b")],
            f"its data is 70.0 s old, {MOST} task 0_1 at http://b, max_age allows 1 s",
        ),
        (
            Limits(max_age=SECOND),
            [row("0_3", age_s=inf, where="http://b")],
            f"the rows of task 0_3 at http://b {UNKNOWN}, max_age allows 1 s",
        ),
        (
            Limits(max_silence=SECOND),
            [RowAge("0_0", "", 0.0, 0, 2_000.0)],
            "its data is 2.0 s old, max_age allows 1 s",
        ),
    ],
)
def test_a_limit_that_is_exceeded_is_named_with_what_was_found(
    limits: Limits, rows: list[RowAge], why: str | None
) -> None:
    assert exceeded(limits, rows, NONE_ABOVE) == why


def test_ages_add_up_along_repartition_topics() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    pages = clicks.group_by(lambda user, page: page, key=str, name="pages").count(store="pages")
    counts = pages.to_stream().group_by(lambda page, count: page[0], key=str, name="letters")
    counts.count(store="letters")
    above = upstream_of(builder.build().sub_topologies)
    assert above == {0: frozenset(), 1: frozenset({0}), 2: frozenset({1})}
    rows = [row("0_0", 0.4), row("0_1", 0.1), row("1_0", 0.4), row("2_3", 0.4)]
    assert exceeded(Limits(max_age=SECOND), rows[:3], above) is None
    assert "1.2 s old" in (exceeded(Limits(max_age=SECOND), rows, above) or "")


def test_sub_topologies_in_a_cycle_count_once() -> None:
    above = {0: frozenset({1}), 1: frozenset({0})}
    rows = [row("0_0", 0.6), row("1_0", 0.6)]
    assert "1.2 s old" in (exceeded(Limits(max_age=SECOND), rows, above) or "")
