"""Whether offsets that no consumer is shown are there: markers of transactions. Pure.

A consumer gets no markers, so one looks like a record that compaction has taken. One behind the
other they are where a writer died before the first record of its transaction had arrived.

Brokers count them where they look an offset up by its time: they answer with the first record, be
it a marker, that is not older. An answer of an offset that no consumer is shown proves that it is
there. A marker has the time of the broker's clock, and so is found where no event before it is
from the future; else nothing is proven.
"""

from __future__ import annotations

from collections.abc import Callable

#: the first offset at or behind a time in ms, None if there is none
FirstSince = Callable[[int], int | None]

#: more of them in a row are not looked for
_HOLE_MAX = 8
#: what brokers' clocks may be ahead
_AHEAD_MS = 600_000


def are_markers(start: int, end: int, first_since: FirstSince, now_ms: int) -> bool:
    """Whether no more than one of the offsets of a hole, ``end`` exclusive, is not proven.

    One alone is taken for a marker wherever it is.
    """
    if end - start > _HOLE_MAX:
        return False
    proven = (is_there(offset, first_since, now_ms) for offset in range(start, end))
    return sum(proven) >= end - start - 1


def is_there(offset: int, first_since: FirstSince, now_ms: int) -> bool:
    """Whether a time can be found whose first record is at this offset.

    >>> times = [10, 30, 20, 40]
    >>> def first_since(time): return next((n for n, t in enumerate(times) if t >= time), None)
    >>> [is_there(offset, first_since, 100) for offset in range(4)]
    [True, True, False, True]
    """
    low, high = 0, now_ms + _AHEAD_MS
    while low < high:
        time_ms = (low + high) // 2
        found = first_since(time_ms)
        if found == offset:
            return True
        if found is not None and found < offset:
            low = time_ms + 1
        else:
            high = time_ms
    return False
