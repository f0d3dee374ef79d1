"""How many commits one micro-batch takes, limited by records and bytes.

A batch takes whole commits, one of each partition in turn, until the next one would exceed a limit.
It always takes the first commit, even if that is larger than the limits; otherwise the query would
make no progress.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ImportError:  # Spark 4.0 and 4.1, which do not use these classes
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """Stands for Spark's."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Stands for Spark's."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Stands for Spark's."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for Spark's."""


__all__ = [
    "HAS_READ_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]


class CommitSize(NamedTuple):
    """A commit in one changelog partition."""

    end: int
    """The offset after its last record."""
    records: int
    bytes: int


def admitted(
    ends: Mapping[int, int],
    commits: Mapping[int, Iterator[CommitSize]],
    *,
    records_max: int | None,
    bytes_max: int | None,
    turn: int,
) -> dict[int, int]:
    """Return the end offsets of a batch, for the partitions of which it takes records.

    ``ends`` are the current ends of the log. A partition whose commits are all taken ends there,
    because transaction markers follow its last commit. ``turn`` selects the partition to begin
    with.

    >>> three = [CommitSize(2, 2, 20), CommitSize(5, 2, 20), CommitSize(8, 2, 20)]
    >>> admitted({0: 9}, {0: iter(three)}, records_max=5, bytes_max=None, turn=0)
    {0: 5}
    """
    waiting = sorted(commits)
    begin = turn % len(waiting) if waiting else 0
    waiting = waiting[begin:] + waiting[:begin]
    taken: dict[int, int] = {}
    records = size = 0
    while waiting:
        for n in list(waiting):
            commit = next(commits[n], None)
            if commit is None:
                taken[n] = ends[n]
                waiting.remove(n)
                continue
            more, larger = records + commit.records, size + commit.bytes
            if records and (_is_over(more, records_max) or _is_over(larger, bytes_max)):
                waiting.remove(n)
                continue
            records, size = more, larger
            taken[n] = commit.end
    return taken


def _is_over(found: int, most: int | None) -> bool:
    return most is not None and found > most
