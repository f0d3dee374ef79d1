"""The claims of an instance: its address and its tasks, each with a number.

A new claim has a higher number than every claim on the same thing that the instance has read, so it
takes precedence over the previous owner's, even if that has not noticed its loss yet. If two
instances claim with the same number, because neither had read the other's claim, the one whose
record is later in the log claims again. The first one does not, so they do not race.
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
        """Return the numbers for the given names; drop claims on other names."""
        self._numbers = {name: self._number(name, now_ms) for name in names}
        return dict(self._numbers)

    def _number(self, name: str, now_ms: float) -> int:
        number = self._numbers.get(name)
        if number is None or self._known.is_second(self._instance, name, number, now_ms):
            return min(self._known.highest_claim(name) + 1, CLAIM_MAX)
        return number
