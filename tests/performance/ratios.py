"""The arithmetic: from samples and figures to ratios.

A ratio is logstate's figure over the peer's: above 1 is faster for records per second, below 1 is
better for CPU, memory and latency. Absolute figures of a shared machine mean little; the ratio of
two runs that followed each other does, and the median over pairs most.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

#: the start of a run that is left out: connecting, warming up, the JVM's compilers
WARM_FROM = 0.3

#: (time in seconds, records committed by then)
Sample = tuple[float, int]


def warm_records_per_s(samples: Sequence[Sample], records: int, done_s: float) -> float | None:
    """Records per second from the first sample past 30 % of the records to the end.

    None where nothing was seen between: one commit covered it all.

    >>> warm_records_per_s([(0.0, 0), (2.0, 400), (5.0, 1000)], 1000, 5.0)
    200.0
    """
    for at_s, committed in samples:
        if committed >= WARM_FROM * records:
            if committed >= records or at_s >= done_s:
                return None
            return (records - committed) / (done_s - at_s)
    return None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Ours over theirs, where both are known."""
    if ours is None or not theirs:
        return None
    return ours / theirs


def known(values: Sequence[float | None]) -> list[float]:
    """Without those that could not be measured."""
    return [value for value in values if value is not None]


def median(values: Sequence[float | None]) -> float | None:
    """The median of what was measured; None where nothing was."""
    found = known(values)
    return statistics.median(found) if found else None


def rounded(value: float | None) -> float | None:
    """Three decimals are more than a shared machine can tell."""
    return None if value is None else round(value, 3)


def percentile(sorted_values: Sequence[float], fraction: float) -> float | None:
    """The value below which ``fraction`` of the values lie.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([], 0.5)
    (3.0, None)
    """
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * fraction))]
