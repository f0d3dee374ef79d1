"""What an instance claims: its address and its tasks, each with a number. Pure.

A new claim has a higher number than every claim on the same thing that the instance has heard of,
so it beats those of who had it before, also of one that does not know yet that it has lost it.
Where two claim with one number, because neither had heard of the other, the one whose record is the
later in the log sees that and claims anew. The first one does not, so they do not race.
"""

from __future__ import annotations

from collections.abc import Iterable

from logstate.directory.entries import CLAIM_MAX
from logstate.directory.known_instances import KnownInstances


class Claims:
    """The claims of one instance."""

    def __init__(self, instance: str, known: KnownInstances) -> None:
        self._instance = instance
        self._known = known
        self._numbers: dict[str, int] = {}

    def of(self, names: Iterable[str], now_ms: float) -> dict[str, int]:
        """The numbers for what it has now; what it has no more is given up."""
        self._numbers = {name: self._number(name, now_ms) for name in names}
        return dict(self._numbers)

    def _number(self, name: str, now_ms: float) -> int:
        number = self._numbers.get(name)
        if number is None or self._known.is_second(self._instance, name, number, now_ms):
            return min(self._known.highest_claim(name) + 1, CLAIM_MAX)
        return number
