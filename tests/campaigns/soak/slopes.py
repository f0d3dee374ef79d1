"""How fast measurements grow, and which growth is too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import NamedTuple

#: measurement -> by how much it may grow per minute, in its own unit; the others are only shown
BOUNDS: Mapping[str, float] = {
    "rss_mb": 0.2,
    "pss_mb": 0.2,
    "reader_rss_mb": 0.2,
    "reader_pss_mb": 0.2,
    "block_cache_mb": 0.2,
    # an object takes about 100 bytes: 0.2 MB again
    "objects": 2_000,
    "allocated_blocks": 2_000,
    "reader_objects": 2_000,
    "reader_allocated_blocks": 2_000,
    # one in ten minutes
    "files": 0.1,
    "threads": 0.1,
    "reader_files": 0.1,
    "reader_threads": 0.1,
}

#: seconds since the start, and the measurements of that moment
Sample = tuple[float, Mapping[str, float]]


class Slope(NamedTuple):
    """One measurement over the last half of a run."""

    name: str
    first: float
    last: float
    per_minute: float
    bound: float | None

    @property
    def is_good(self) -> bool:
        """Whether it grows no faster than it may."""
        return self.bound is None or self.per_minute <= self.bound


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """A line through each measurement of the last half, in which caches are full.

    >>> half_full = [(60.0 * minute, {"rss_mb": min(minute, 5.0)}) for minute in range(11)]
    >>> [(slope.per_minute, slope.is_good) for slope in slopes(half_full)]
    [(0.0, True)]
    """
    end_s = samples[-1][0]
    late = [sample for sample in samples if sample[0] >= end_s / 2]
    return [_slope(name, late) for name in late[-1][1]]


def _slope(name: str, samples: Sequence[Sample]) -> Slope:
    found = [(at_s / 60, values[name]) for at_s, values in samples if name in values]
    minutes, values = zip(*found, strict=True)
    per_minute = linear_regression(minutes, values).slope if len(found) > 1 else 0.0
    return Slope(name, values[0], values[-1], round(per_minute, 6), BOUNDS.get(name))


def table(found: Sequence[Slope]) -> str:
    """The slopes as a table."""
    lines = [
        "| measurement | at the half | at the end | per minute | at most | |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        bound = "" if one.bound is None else f"{one.bound:,}"
        verdict = "" if one.is_good else "**grows**"
        lines.append(
            f"| {one.name} | {one.first:,.1f} | {one.last:,.1f} | {one.per_minute:+,.3f} | {bound}"
            f" | {verdict} |"
        )
    return "\n".join(lines)
