"""Estimate how long instances have been silent, from the directory log alone.

A new reader has no common clock with the writers of the entries. But each writer's clock shows how
much time has passed between two of its entries, and an instance that wrote nothing meanwhile was
silent for at least that long.

A clock that is set forward shows time that has not passed, so the time between two entries of an
instance is limited to the expected time of the second one. A compacted log has fewer entries, and
shows less time.

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

#: maximum number of heartbeats between two entries of a connected instance
_HEARTBEATS_BETWEEN = 2


class _LastEntry(NamedTuple):
    """The last entry of an instance."""

    #: time of this log
    at_ms: float
    #: time of the writer's clock
    written_ms: int


class LogTime:
    """The time of one reading, in the order of the log."""

    def __init__(self) -> None:
        #: minimum time that has passed since the first entry
        self._ms = 0.0
        self._last: dict[str, _LastEntry] = {}

    def heard(self, entry: InstanceEntry, written_ms: int) -> None:
        """Process an entry, and the timestamp of its record."""
        before = self._last.get(entry.instance)
        if before is not None:
            between_ms = min(
                written_ms - before.written_ms, _HEARTBEATS_BETWEEN * entry.heartbeat_timeout_ms
            )
            self._ms = max(self._ms, before.at_ms + between_ms)
        self._last[entry.instance] = _LastEntry(self._ms, written_ms)

    def silences(self) -> dict[str, float]:
        """Return for each instance how many ms it had written nothing at the end."""
        return {instance: self._ms - last.at_ms for instance, last in self._last.items()}
