"""Draw objects one after the other, each from a seed and its number.

Objects of a number are the same in every run, and for every topic that declares the same type: so
keys of several topics match in joins.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

#: numbers without bounds: small enough to be summed, and useful in most columns
_LEAST, _MOST = 0, 1_000
_SYLLABLES = ("ba", "do", "fe", "gi", "ka", "lu", "mo", "ne", "pa", "ri", "so", "tu", "va", "ze")
#: maximum depth of nested objects, for types that contain themselves
_DEEPEST = 3


class Draw:
    """The random source of one object.

    >>> Draw(1, 7).word() == Draw(1, 7).word()
    True
    """

    def __init__(self, seed: int, number: int, time_ms: int = 0) -> None:
        self.random = random.Random(f"{seed}-{number}")  # noqa: S311  no secret hangs on it
        self.number = number
        #: event time of the record; drawn points in time are before it
        self.time_ms = time_ms
        self.depth = 0

    @property
    def is_deep(self) -> bool:
        """Whether optional parts must be left out, so that the nesting ends."""
        return self.depth > _DEEPEST

    def of(self, choices: Sequence[T]) -> T:
        """Return one of them."""
        return self.random.choice(choices)

    def word(self, least: int = 0, most: int | None = None) -> str:
        """Return syllables and a number, cut or filled to a length."""
        text = "".join(self.random.choices(_SYLLABLES, k=3)) + str(self.random.randrange(1_000))
        text = text.ljust(least, "x")
        return text if most is None else text[:most]

    def integer(self, least: int | None = None, most: int | None = None) -> int:
        """Return a number within the bounds, and not larger than necessary."""
        if least is None:
            least = _LEAST if most is None or most >= _LEAST else most - _MOST
        return self.random.randint(
            least, least + _MOST if most is None else min(most, least + _MOST)
        )

    def number_with_fraction(self, least: float | None = None, most: float | None = None) -> float:
        """Return a number within the bounds, with two digits after the point if they fit."""
        low = (_LEAST if most is None else min(_LEAST, most - _MOST)) if least is None else least
        high = low + _MOST if most is None else min(most, low + _MOST)
        drawn = self.random.uniform(low, high)
        return rounded if low <= (rounded := round(drawn, 2)) <= high else drawn

    def boolean(self) -> bool:
        """Return True or False."""
        return self.random.random() < 1 / 2

    def data(self, size: int = 8) -> bytes:
        """Return random bytes."""
        return self.random.randbytes(size)

    def identifier(self) -> uuid.UUID:
        """Return a random UUID (version 4)."""
        return uuid.UUID(bytes=self.random.randbytes(16), version=4)

    def instant(self) -> datetime:
        """Return a time within the hour before the record, in UTC."""
        at_ms = self.time_ms - self.random.randrange(3_600_000)
        return datetime.fromtimestamp(max(at_ms, 0) / 1_000, UTC)
