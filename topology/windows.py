"""Windows: which span of event time a record falls into.

Constructors take ``timedelta`` keywords; attributes are whole milliseconds. Nothing has an implicit
grace: without ``grace`` a window closes as soon as stream time reaches its end (KIP-633).

- tumbling and hopping windows: [start, end), starts are multiples of the advance and never
  negative;
- sliding windows (KIP-450): [start, end], both ends inclusive, one window per distinct content;
- session windows: [first event, last event], merged while the distance is <= the gap;
- join windows: a left record at t matches right records in [t - before, t + after].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from logstate.errors import TopologyError
from logstate.topology.declared import declaration_site

#: when an aggregation forwards: every update, the last per key and commit, or final results only
Emit: TypeAlias = Literal["update", "commit", "close"]

_MILLISECOND = timedelta(milliseconds=1)
_ZERO = timedelta(0)


def to_ms(duration: timedelta, what: str) -> int:
    """A duration in whole milliseconds; raises TopologyError for anything else than that."""
    if not isinstance(duration, timedelta):
        raise TopologyError(
            f"{what} must be a timedelta, found {duration!r}. Write timedelta(seconds=...).",
            declared_at=declaration_site(),
        )
    if duration % _MILLISECOND:
        raise TopologyError(
            f"{what} is {duration}, which is no whole number of milliseconds: event time has"
            " millisecond resolution.",
            declared_at=declaration_site(),
        )
    return duration // _MILLISECOND


def _checked(duration: timedelta, what: str, *, at_least: int) -> int:
    ms = to_ms(duration, what)
    if ms < at_least:
        raise TopologyError(
            f"{what} must be at least {at_least} ms, found {ms} ms.",
            declared_at=declaration_site(),
        )
    return ms


class Windows(ABC):
    """Windows of fixed size. Subclass it for your own alignment (calendar days, shifts, ...)."""

    #: length of a window; a window store keeps only starts, so it must be the same for all
    size_ms: int
    #: how long after its end a window still accepts records
    grace_ms: int

    @abstractmethod
    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        """The windows (start, end) that contain ``timestamp``, ascending; end is exclusive."""


class TumblingWindows(Windows):
    """Windows side by side, aligned to the epoch.

    >>> TumblingWindows(size=timedelta(seconds=10)).windows_for(12_345)
    ((10000, 20000),)
    """

    def __init__(self, *, size: timedelta, grace: timedelta = _ZERO) -> None:
        self.size_ms = _checked(size, "size of tumbling windows", at_least=1)
        self.grace_ms = _checked(grace, "grace of tumbling windows", at_least=0)

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        start = timestamp - timestamp % self.size_ms
        return ((start, start + self.size_ms),)

    def __repr__(self) -> str:
        return f"TumblingWindows(size_ms={self.size_ms}, grace_ms={self.grace_ms})"


class HoppingWindows(Windows):
    """Overlapping windows: one of ``size`` starts every ``advance``.

    >>> HoppingWindows(size=timedelta(seconds=10), advance=timedelta(seconds=5)).windows_for(12_345)
    ((5000, 15000), (10000, 20000))
    """

    def __init__(self, *, size: timedelta, advance: timedelta, grace: timedelta = _ZERO) -> None:
        self.size_ms = _checked(size, "size of hopping windows", at_least=1)
        self.advance_ms = _checked(advance, "advance of hopping windows", at_least=1)
        self.grace_ms = _checked(grace, "grace of hopping windows", at_least=0)
        if self.advance_ms > self.size_ms:
            raise TopologyError(
                f"advance {self.advance_ms} ms is larger than size {self.size_ms} ms: records"
                " between two windows would be in none. Make advance at most size.",
                declared_at=declaration_site(),
            )

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        size, advance = self.size_ms, self.advance_ms
        first = max(0, timestamp - size + advance) // advance * advance
        return tuple((start, start + size) for start in range(first, timestamp + 1, advance))

    def __repr__(self) -> str:
        return (
            f"HoppingWindows(size_ms={self.size_ms}, advance_ms={self.advance_ms},"
            f" grace_ms={self.grace_ms})"
        )


class UnlimitedWindows(Windows):
    """One window from ``start_ms`` on that never closes; earlier records are in no window."""

    def __init__(self, *, start_ms: int = 0) -> None:
        if start_ms < 0:
            raise TopologyError(
                f"start_ms must not be negative, found {start_ms}.", declared_at=declaration_site()
            )
        self.start_ms = start_ms
        self.size_ms = 2**63 - 1
        self.grace_ms = 0

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        return ((self.start_ms, 2**63 - 1),) if timestamp >= self.start_ms else ()


class SlidingWindows:
    """A window for every distinct set of records no further apart than ``difference``."""

    def __init__(self, *, difference: timedelta, grace: timedelta = _ZERO) -> None:
        self.difference_ms = _checked(difference, "difference of sliding windows", at_least=0)
        self.grace_ms = _checked(grace, "grace of sliding windows", at_least=0)

    def __repr__(self) -> str:
        return f"SlidingWindows(difference_ms={self.difference_ms}, grace_ms={self.grace_ms})"


class SessionWindows:
    """Activity without a pause longer than ``gap``."""

    def __init__(self, *, gap: timedelta, grace: timedelta = _ZERO) -> None:
        self.gap_ms = _checked(gap, "gap of session windows", at_least=1)
        self.grace_ms = _checked(grace, "grace of session windows", at_least=0)

    def __repr__(self) -> str:
        return f"SessionWindows(gap_ms={self.gap_ms}, grace_ms={self.grace_ms})"


class JoinWindows:
    """How far apart two records may be to be joined, and how long to wait for stragglers."""

    def __init__(
        self, *, before: timedelta = _ZERO, after: timedelta = _ZERO, grace: timedelta = _ZERO
    ) -> None:
        self.before_ms = to_ms(before, "before of join windows")
        self.after_ms = to_ms(after, "after of join windows")
        self.grace_ms = _checked(grace, "grace of join windows", at_least=0)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"before {self.before_ms} ms + after {self.after_ms} ms is negative: no record can"
                " match.",
                declared_at=declaration_site(),
            )

    @classmethod
    def symmetric(cls, difference: timedelta, *, grace: timedelta = _ZERO) -> JoinWindows:
        """``difference`` to both sides (Kafka Streams' ``ofTimeDifferenceAndGrace``)."""
        return cls(before=difference, after=difference, grace=grace)

    @property
    def size_ms(self) -> int:
        """Width of the whole span."""
        return self.before_ms + self.after_ms

    def __repr__(self) -> str:
        return (
            f"JoinWindows(before_ms={self.before_ms}, after_ms={self.after_ms},"
            f" grace_ms={self.grace_ms})"
        )
