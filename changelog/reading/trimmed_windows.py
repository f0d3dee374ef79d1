"""Find out whether windows that a cut contains were trimmed from its changelog since.

The owner of a windowed store deletes the records of windows that have expired by its clock: those
at the beginning of the log, a part of a segment at a time (`rows.segments`). An earlier cut has an
older clock, by which some of them are not expired. They are deleted, and no hole shows it, because
the log looks as if it had always begun there. So a cut contains the beginnings of its logs.

Not every deleted window is missing from the cut. Owners wait for a while before they delete, so
a cut that is younger is complete. For an older one the newest clock limits how far an owner can
have deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.changelog.rows.segments import LEAST_INTERVAL_MS, part_interval_ms
from logstate.contracts.worker_config import PURGE_INTERVAL_MS

#: clocks of the machines that take a cut and read it may differ a little
_YOUNG_MS = PURGE_INTERVAL_MS - 5_000


def is_young(taken_at_ms: int, now_ms: int) -> bool:
    """Whether no owner can have deleted yet what a cut shows.

    >>> is_young(100_000, 124_000), is_young(100_000, 131_000)
    (True, False)
    """
    return now_ms < taken_at_ms + _YOUNG_MS


def has_trimmed(entry: Mapping[str, Any], oldest_shown_ms: int, newest_clock_ms: int) -> bool:
    """Whether an owner whose clock is the newest may have deleted a window that is shown.

    >>> per_minute = {"retention_ms": 3_600_000, "segment_interval_ms": 1_800_000}
    >>> has_trimmed(per_minute, 1_800_000, 5_399_999), has_trimmed(per_minute, 1_800_000, 7_200_000)
    (False, True)
    """
    retention_ms = int(entry["retention_ms"])
    part_ms = part_interval_ms(interval_ms_of(entry), retention_ms)
    first_live_ms = (newest_clock_ms - retention_ms) // part_ms * part_ms
    return first_live_ms > oldest_shown_ms


def interval_ms_of(entry: Mapping[str, Any]) -> int:
    """The segment interval of a windowed store.

    >>> interval_ms_of({"retention_ms": 3_600_000})
    1800000
    """
    given = entry.get("segment_interval_ms")
    return int(given or max(int(entry["retention_ms"]) // 2, LEAST_INTERVAL_MS))
