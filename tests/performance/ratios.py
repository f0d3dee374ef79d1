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
#: between two looks of the observer
_OFTEN_S, _SELDOM_S = 0.05, 0.25

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


def look_again_in_s(samples: Sequence[Sample], records: int, now_s: float) -> float:
    """How long the observer may look away: an eighth of what is left, by what was seen so far.

    A look takes CPU time of the broker and of a core that the programs need; only the end has to be
    seen when it comes.

    >>> look_again_in_s([(0.0, 0), (10.0, 500)], 1_000, now_s=11.0), look_again_in_s([], 1_000, 0.0)
    (0.25, 0.05)
    """
    if not samples or not samples[-1][1]:
        return _OFTEN_S
    (began_s, _), (seen_s, done) = samples[0], samples[-1]
    end_s = seen_s + (records - done) * (seen_s - began_s) / done
    return min(max((end_s - now_s) / 8, _OFTEN_S), _SELDOM_S)


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
