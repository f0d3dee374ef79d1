"""Estimate how fast a store is replayed and how long the replay will take.

Progress is counted in offsets, because the target is an offset: markers and compacted records are
part of the distance.
"""

from __future__ import annotations

from dataclasses import dataclass

#: within a shorter time, the rate mostly reflects the first fetch
_MEASURED_MS = 100.0


@dataclass(frozen=True)
class RestorePace:
    """When and at which offset the replay of a store began."""

    began_ms: float
    first: int

    def offsets_per_s(self, now_ms: float, position: int) -> float | None:
        """Return the mean rate since the beginning; None while it is too early to estimate.

        >>> RestorePace(0.0, 1_000).offsets_per_s(2_000.0, 5_000)
        2000.0
        """
        passed_ms = now_ms - self.began_ms
        if passed_ms < _MEASURED_MS or position <= self.first:
            return None
        return (position - self.first) * 1_000 / passed_ms

    def remaining_s(self, now_ms: float, position: int, target: int) -> float | None:
        """Return the remaining time at this rate.

        >>> RestorePace(0.0, 0).remaining_s(1_000.0, 100, 400)
        3.0
        """
        rate = self.offsets_per_s(now_ms, position)
        if position >= target:
            return 0.0
        return None if rate is None else (target - position) / rate
