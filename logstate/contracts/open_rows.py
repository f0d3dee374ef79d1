"""What waits in an operator until stream time closes it, counted when somebody looks at it.

Nothing is counted per record. A look reads the first rows by the time at which they close, and not
more than :data:`OPEN_ROWS_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

#: how many rows a look reads at most
OPEN_ROWS_MAX: Final = 1_000


class OpenRows(NamedTuple):
    """The open rows of one operator: windows, sessions, records that wait, timers."""

    #: at most :data:`OPEN_ROWS_MAX`, which means that many or more
    total: int
    #: stream time at which the first of them closes; None: nothing is open
    next_ms: int | None
    #: stream time of the operator; -1 before its first record
    stream_time_ms: int


#: counts what is open in an operator
LookAtOpen: TypeAlias = "Callable[[], OpenRows]"


def open_rows(closing_ms: Iterable[int], stream_time_ms: int) -> OpenRows:
    """Count rows by the stream times at which they close.

    >>> open_rows([9_000, 8_000], 5_000)
    OpenRows(total=2, next_ms=8000, stream_time_ms=5000)
    >>> open_rows([], -1)
    OpenRows(total=0, next_ms=None, stream_time_ms=-1)
    """
    times = list(islice(closing_ms, OPEN_ROWS_MAX))
    return OpenRows(len(times), min(times, default=None), stream_time_ms)


def joined(looks: Iterable[OpenRows]) -> OpenRows:
    """Add up what several parts of one operator have open.

    >>> joined([open_rows([7], 5), open_rows([], 5)])
    OpenRows(total=1, next_ms=7, stream_time_ms=5)
    """
    found = list(looks)
    times = [one.next_ms for one in found if one.next_ms is not None]
    total = min(sum(one.total for one in found), OPEN_ROWS_MAX)
    return OpenRows(total, min(times, default=None), max(one.stream_time_ms for one in found))
