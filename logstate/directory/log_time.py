"""How long instances have been silent, as far as the directory itself tells. Pure.

A reader that has just come has no clock in common with those who wrote what it reads. But each of
them has one in common with itself: between two of its entries passed what its times say, and who
wrote nothing meanwhile was silent for as long, at least.

A clock that is set forward tells of time that has not passed, so between two entries of an instance
no more counts than it may take for the second one. A log that was compacted has fewer entries, and
tells of less.

>>> from logstate.directory.entries import InstanceEntry
>>> time = LogTime()
>>> for writer, ms in (("dead", 70_000), ("alive", 5_000), ("alive", 6_000), ("alive", 7_500)):
...     time.heard(InstanceEntry(writer, "", 0, heartbeat_ms=1_000), ms)
>>> time.silences()
{'dead': 2500.0, 'alive': 0.0}
"""

from __future__ import annotations

from typing import NamedTuple

from logstate.directory.entries import InstanceEntry

#: heartbeats that may lie between two entries of an instance which is in touch
_HEARTBEATS_BETWEEN = 2


class _Told(NamedTuple):
    """The last entry of an instance."""

    #: of this log
    at_ms: float
    #: by the clock of its writer
    written_ms: int


class LogTime:
    """Of one reading, in the order of the log."""

    def __init__(self) -> None:
        #: that has passed since the first entry, at least
        self._ms = 0.0
        self._last: dict[str, _Told] = {}

    def heard(self, entry: InstanceEntry, written_ms: int) -> None:
        """An entry, and its record's time."""
        before = self._last.get(entry.instance)
        if before is not None:
            between_ms = min(written_ms - before.written_ms, _HEARTBEATS_BETWEEN * entry.beat_ms)
            self._ms = max(self._ms, before.at_ms + between_ms)
        self._last[entry.instance] = _Told(self._ms, written_ms)

    def silences(self) -> dict[str, float]:
        """Instance -> for how many milliseconds it had written nothing at the end."""
        return {instance: self._ms - told.at_ms for instance, told in self._last.items()}
