"""Decide when a member asks its group for news before its next heartbeat.

In the `consumer` protocol (KIP-848) members learn of a change with their own heartbeats, every five
seconds by the brokers' default: a partition that its owner has released waits until the next owner
sends a heartbeat. A member that expects a change asks sooner.

The time between two requests grows by an eighth of the time waited so far: a change is noticed late
by at most that much, and without a change its requests soon become rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from math import inf

_FIRST_MS = 50.0
_SHARE = 1 / 8
#: how long a change is expected after a sibling has joined or left: the default heartbeat
#: interval
_ANNOUNCED_MS = 5_000.0


class HeartbeatBackoff:
    """Schedules early requests to the group.

    >>> heartbeat_backoff = HeartbeatBackoff()
    >>> [ms for ms in range(0, 3_000, 10) if heartbeat_backoff.is_due("tasks", ms)]
    [0, 50, 110, 180, 260, 350, 450, 560, 680, 820, 980, 1160, 1360, 1580, 1830, 2110, 2430, 2790]
    >>> heartbeat_backoff.is_due(None, 5_000)
    False
    """

    def __init__(self) -> None:
        self._waits_for: object = None
        self._since_ms = 0.0
        self._next_ms = 0.0

    def is_due(self, waits_for: object, now_ms: float) -> bool:
        """Return True if a request is due. ``waits_for`` identifies the expected change; None:
        none.

        A different value than before starts a new wait.
        """
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            self._since_ms = self._next_ms = now_ms
        if waits_for is None or now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + _FIRST_MS + (now_ms - self._since_ms) * _SHARE
        return True


class SiblingWorkers:
    """The other workers of an instance, and how many tasks each owns.

    A worker asks the group for a while after a sibling has joined or left: the group may know of it
    already. And it asks while a sibling owns at least two tasks fewer, because a sibling that has
    started may join the group much later.

    >>> siblings = SiblingWorkers()
    >>> siblings.announces({1: 2}, 2, 0)
    {1: 2}
    >>> siblings.announces({1: 2}, 2, 5_000) is None
    True
    >>> siblings.announces({1: 0}, 4, 6_000)
    {1: 0}
    """

    def __init__(self) -> None:
        self._known: AbstractSet[int] = frozenset()
        self._until_ms = -inf

    def announces(
        self, siblings: Mapping[int, int], owned: int, now_ms: float
    ) -> Mapping[int, int] | None:
        """Return ``siblings`` if a change of this worker's ``owned`` tasks is expected."""
        if siblings.keys() != self._known:
            self._known = siblings.keys()
            self._until_ms = now_ms + _ANNOUNCED_MS
        is_uneven = owned > min(siblings.values(), default=owned) + 1
        return siblings if is_uneven or now_ms < self._until_ms else None
