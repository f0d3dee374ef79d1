"""How fast a store is replayed, and when that will be over. Pure.

Counted in offsets, for the end is one: markers and what was compacted away are part of the way.
"""

from __future__ import annotations

from dataclasses import dataclass

#: shorter than this, the rate says more about the first fetch than about the rest
_MEASURED_MS = 100.0


@dataclass(frozen=True)
class RestorePace:
    """Since when, and from where, a store is replayed."""

    began_ms: float
    first: int

    def offsets_per_s(self, now_ms: float, position: int) -> float | None:
        """The mean rate since the beginning; None where it is too early to tell.

        >>> RestorePace(0.0, 1_000).offsets_per_s(2_000.0, 5_000)
        2000.0
        """
        passed_ms = now_ms - self.began_ms
        if passed_ms < _MEASURED_MS or position <= self.first:
            return None
        return (position - self.first) * 1_000 / passed_ms

    def remaining_s(self, now_ms: float, position: int, target: int) -> float | None:
        """How long it will take at this rate.

        >>> RestorePace(0.0, 0).remaining_s(1_000.0, 100, 400)
        3.0
        """
        rate = self.offsets_per_s(now_ms, position)
        if position >= target:
            return 0.0
        return None if rate is None else (target - position) / rate
