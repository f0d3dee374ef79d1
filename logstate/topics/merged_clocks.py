"""The clocks of tasks whose keys are dealt out anew: one set for all of them. Pure.

Every new task has keys of every old one, and one clock where these had several. Nothing may be
judged by a clock that is behind: a window that one task has closed, and sent as a final result,
must not be opened again. So the largest counts, and late is what the farthest old task calls late.
Three clocks say something else than how far time has come, and take the smallest:

``earliest:STORE``  no record that waits in the buffer is older
``…-watched``       the oldest row of a join that waits for a partner; -1 where none waits
``emitted:STORE``   final results were sent up to here; what another old task has sent beyond it
                    must not be sent again, and is left behind (:class:`FinalResults`)

``rows:STORE``, how many rows a task has, is dropped: the new tasks count theirs.
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
    """The clocks that every new task begins with.

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
    """Which rows of a store have been sent as final results."""

    #: a row ends so much after its time
    size_ms: int
    is_end_exclusive: bool

    def was_sent_early(self, time_ms: int, emitted: int, emitted_by_all: int) -> bool:
        """Whether a row was sent by its old task, but not by the one that had come least far."""
        return self._first_unsent(emitted_by_all) <= time_ms < self._first_unsent(emitted)

    def _first_unsent(self, emitted: int) -> int:
        if emitted == _NOTHING:
            return 0
        return max(0, emitted - self.size_ms) + self.is_end_exclusive


def emitted_clock(store: str) -> str:
    """The name of the clock of final results."""
    return _EMITTED + store
