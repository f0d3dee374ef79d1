"""Decide when a member asks its group for news before its next heartbeat.

In the `consumer` protocol (KIP-848) members learn of a change with their own heartbeats, every five
seconds by the brokers' default: a partition that its owner has released waits until the next owner
sends a heartbeat. A member that expects a change asks sooner.

The time between two requests grows by an eighth of the time waited so far: a change is noticed late
by at most that much, and without a change its requests soon become rare.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet

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
        self._waits_for: Hashable = None
        self._since_ms = 0.0
        self._next_ms = 0.0

    def is_due(self, waits_for: Hashable, now_ms: float) -> bool:
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
    """The other workers of an instance.

    A worker that has joined or left changes the tasks of this one: soon, if the group knows of it
    already; or not at all, if no task moves to or from here.
    >>> siblings = SiblingWorkers()
    >>> siblings.announces(frozenset({1}), {"0_0", "0_1"}, 0)
    frozenset({1})
    >>> siblings.announces(frozenset({1}), {"0_0"}, 100) is None
    True
    """

    def __init__(self) -> None:
        self._known: frozenset[int] = frozenset()
        #: the owned tasks at the time of the change; None: no change is expected
        self._owned: frozenset[Hashable] | None = None
        self._until_ms = 0.0

    def announces(
        self, siblings: frozenset[int], owned: AbstractSet[Hashable], now_ms: float
    ) -> Hashable:
        """Return a value that identifies the expected change; None if none is expected."""
        if siblings != self._known:
            self._known, self._owned = siblings, frozenset(owned)
            self._until_ms = now_ms + _ANNOUNCED_MS
        if self._owned is None:
            return None
        if now_ms >= self._until_ms or owned != self._owned:
            self._owned = None
            return None
        return siblings
