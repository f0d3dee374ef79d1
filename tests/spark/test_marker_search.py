"""Markers of transactions are told from records that are gone by what brokers say about times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from logstate.changelog.reading.marker_search import (
    FirstSince,
    Missing,
    OffsetGaps,
    are_markers,
)
from tests.spark.test_latest_records import Record

NOW_MS = 1_000_000


def log_of(times: Mapping[int, int]) -> FirstSince:
    """What a broker answers for a log with these offsets and times."""
    return lambda time_ms: next((at for at, its in sorted(times.items()) if its >= time_ms), None)


@pytest.mark.parametrize(
    ("times", "hole", "expected"),
    [
        ({0: 10, 1: 500, 2: 600, 3: 20}, (1, 3), True),
        ({0: 10, 1: 500, 2: 500, 3: 20}, (1, 3), False),  # within one millisecond
        ({0: 10, 3: 20}, (1, 3), False),
        ({0: 10, 2: 500, 3: 20}, (1, 3), False),
        ({0: 10, 1: 500, 2: 20}, (1, 2), True),
        ({0: 10, 2: 20}, (1, 2), False),
        ({0: 10, 2: 500, 4: 20}, (1, 4), False),
        ({0: 10, 1: 500, 2: 600, 3: 700, 4: 20}, (1, 4), True),
        # an event of the future hides them
        ({0: NOW_MS * 9, 1: 500, 2: 600, 3: 20}, (1, 3), False),
    ],
)
def test_missing_offsets_are_markers_where_each_is_found_by_a_time(
    times: Mapping[int, int], hole: tuple[int, int], expected: bool
) -> None:
    newest_ms = max(its for at, its in times.items() if at < hole[0])
    missing = [Missing(at, newest_ms) for at in range(*hole)]

    assert are_markers(missing, log_of(times), NOW_MS) is expected


def test_a_marker_behind_ordinary_events_is_found_with_one_question() -> None:
    asked: list[int] = []
    first_since = log_of({0: 10, 1: 500, 2: 501})

    def counted(time_ms: int) -> int | None:
        asked.append(time_ms)
        return first_since(time_ms)

    assert are_markers([Missing(1, 10)], counted, NOW_MS)
    assert asked == [11]


def test_missing_offsets_carry_the_newest_time_before_them() -> None:
    batches: list[Any] = [[Record(1, "a"), Record(2, "b")], [Record(5, "c")]]
    adjacent = [Missing(3, 2), Missing(4, 2)]

    missing = OffsetGaps(batches, 0, 7, most=4)

    assert missing.found == [Missing(0, -1), *adjacent, Missing(6, 5)]
    assert missing.adjacent == adjacent


@pytest.mark.parametrize(("most", "all_of_them", "adjacent"), [(4, True, True), (3, False, True)])
def test_more_missing_offsets_than_are_looked_for_prove_nothing(
    most: int, all_of_them: bool, adjacent: bool
) -> None:
    batches: list[Any] = [[Record(1, "a"), Record(2, "b")], [Record(5, "c")]]
    missing = OffsetGaps(batches, 0, 7, most)
    first_since = log_of({0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6})

    assert missing.are_markers(first_since, NOW_MS) is all_of_them
    assert missing.adjacent_are_markers(first_since, NOW_MS) is adjacent


def test_a_long_hole_is_not_looked_through() -> None:
    missing = OffsetGaps([], 0, 1_000_000_000, most=4)

    assert len(missing.found) == len(missing.adjacent) == 5
    assert not missing.adjacent_are_markers(log_of({}), NOW_MS)
