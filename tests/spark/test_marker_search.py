"""Markers of transactions are told from records that are gone by what brokers say about times."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from logstate.changelog.reading.latest_records import WideHoles
from logstate.changelog.reading.marker_search import FirstSince, are_markers

NOW_MS = 1_000_000


def log_of(times: Mapping[int, int]) -> FirstSince:
    """What a broker answers for a log with these offsets and times."""
    return lambda time_ms: next((at for at, its in sorted(times.items()) if its >= time_ms), None)


@pytest.mark.parametrize(
    ("times", "hole", "expected"),
    [
        ({0: 10, 1: 500, 2: 600, 3: 20}, (1, 3), True),
        ({0: 10, 1: 500, 2: 500, 3: 20}, (1, 3), True),  # within one millisecond
        ({0: 10, 3: 20}, (1, 3), False),
        ({0: 10, 2: 500, 3: 20}, (1, 3), True),  # one may be missing, as anywhere
        ({0: 10, 2: 500, 4: 20}, (1, 4), False),
        ({0: 10, 1: 500, 2: 600, 3: 700, 4: 20}, (1, 4), True),
        (
            {0: NOW_MS * 9, 1: 500, 2: 600, 3: 20},
            (1, 3),
            False,
        ),  # an event of the future hides them
        ({at: at for at in range(100)}, (1, 50), False),
    ],
)
def test_a_hole_is_of_markers_where_all_but_one_are_there(
    times: Mapping[int, int], hole: tuple[int, int], expected: bool
) -> None:
    assert are_markers(*hole, log_of(times), NOW_MS) is expected


def test_a_hole_that_is_explained_is_none() -> None:
    holes = WideHoles(0, lambda start, end: (start, end) == (0, 3))

    holes.reach(3)
    assert holes.first is None
    holes.reach(6)
    assert holes.first == 3
