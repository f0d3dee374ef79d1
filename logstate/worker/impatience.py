"""When a member asks its group for news instead of waiting for its next heartbeat. Pure.

In the `consumer` protocol (KIP-848) members hear of a change with their own heartbeats, every five
seconds by the brokers' default: a partition that its owner has given up waits until the next owner
happens to ask. A member that knows that something is coming asks sooner.

The time between two questions grows with the time that it has waited in vain, by an eighth of it:
it hears at most that much late, and where nothing comes its heartbeats are soon more frequent.
"""

from __future__ import annotations

from collections.abc import Hashable

_FIRST_MS = 250.0
_SHARE = 1 / 8


class Impatience:
    """See the module.

    >>> impatience = Impatience()
    >>> [ms for ms in range(0, 5_000, 50) if impatience.is_due("tasks", ms)]
    [0, 250, 550, 900, 1300, 1750, 2250, 2800, 3400, 4100, 4900]
    >>> impatience.is_due(None, 5_000)
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
