"""When a member asks its group for news instead of waiting for its next heartbeat. Pure.

In the `consumer` protocol (KIP-848) members hear of a change with their own heartbeats, every five
seconds by the brokers' default: a partition that its owner has given up waits until the next owner
happens to ask. A member that knows that something is coming asks sooner.

The time between two questions grows with the time that it has waited in vain, by an eighth of it:
it hears at most that much late, and where nothing comes its heartbeats are soon more frequent.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet

_FIRST_MS = 50.0
_SHARE = 1 / 8
#: so long after another has come or gone something is expected of it: as long as a heartbeat is
#: waited for by default
_ANNOUNCED_MS = 5_000.0


class HeartbeatBackoff:
    """See the module.

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
        """Whether to ask now. ``waits_for``: what is to come, and by what that is known; None:
        nothing. Where it is another than before the wait begins anew.
        """
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            self._since_ms = self._next_ms = now_ms
        if waits_for is None or now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + _FIRST_MS + (now_ms - self._since_ms) * _SHARE
        return True


class SiblingWorkers:
    """The other workers of an instance. One that has come or gone changes what this one has: soon,
    where the group knows of it already; or not at all, where it gives or takes nothing here.

    >>> company = SiblingWorkers()
    >>> company.announces(frozenset({1}), {"0_0", "0_1"}, 0)
    frozenset({1})
    >>> company.announces(frozenset({1}), {"0_0"}, 100) is None
    True
    """

    def __init__(self) -> None:
        self._known: frozenset[int] = frozenset()
        #: what there was when it changed; None: nothing is to come
        self._owned: frozenset[Hashable] | None = None
        self._until_ms = 0.0

    def announces(
        self, company: frozenset[int], owned: AbstractSet[Hashable], now_ms: float
    ) -> Hashable:
        """By what it is known that something is to come; None: nothing is."""
        if company != self._known:
            self._known, self._owned = company, frozenset(owned)
            self._until_ms = now_ms + _ANNOUNCED_MS
        if self._owned is None:
            return None
        if now_ms >= self._until_ms or owned != self._owned:
            self._owned = None
            return None
        return company
