"""Merge the clocks of tasks whose keys are redistributed: one set for all new tasks.

Every new task has keys of every old one, and one clock instead of several. No record may be
processed with a clock that is behind: a window that one task has closed and emitted as a final
result must not be opened again. So the largest clock counts, and records are late by the old task
that was farthest ahead. Three clocks have another meaning, and take the smallest:

``earliest:STORE``  no record in the buffer is older
``…-watched``       the oldest row of a join that waits for a partner; -1 if none waits
``emitted:STORE``   final results were emitted up to here; results beyond it that another old task
                    emitted must not be emitted again, and are dropped (:class:`FinalResults`)

``rows:STORE``, the number of rows of a task, is dropped: the new tasks count theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logstate.changelog.row_counts import without_counts

_EARLIEST = "earliest:"
_EMITTED = "emitted:"
_WATCHED = "-watched"
_NOTHING = -1


def merged_clocks(tasks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the clocks with which every new task begins.

    >>> merged_clocks([{"store:s": 7, "emitted:s": 5}, {"store:s": 9, "emitted:s": -1}])
    {'store:s': 9, 'emitted:s': -1}
    """
    found: dict[str, list[int]] = {}
    for clocks in tasks:
        for name, time in without_counts(clocks).items():
            found.setdefault(name, []).append(time)
    return {name: _merged(name, times) for name, times in found.items()}


def _merged(name: str, times: Sequence[int]) -> int:
    if name.endswith(_WATCHED):
        return min((time for time in times if time != _NOTHING), default=_NOTHING)
    if name.startswith((_EARLIEST, _EMITTED)):
        return min(times)
    return max(times)


class FinalResults(NamedTuple):
    """Determines which rows of a store were emitted as final results."""

    #: a row ends this much after its time
    size_ms: int
    is_end_exclusive: bool

    def was_sent_early(self, time_ms: int, emitted: int, emitted_by_all: int) -> bool:
        """Return whether its old task emitted a row, but not the slowest old task."""
        return self._first_unsent(emitted_by_all) <= time_ms < self._first_unsent(emitted)

    def _first_unsent(self, emitted: int) -> int:
        if emitted == _NOTHING:
            return 0
        return max(0, emitted - self.size_ms) + self.is_end_exclusive


def emitted_clock(store: str) -> str:
    """Return the name of the clock of final results."""
    return _EMITTED + store
