"""Wait for a group that has members with another protocol: Kafka Streams on the JVM, same id.

A member that was stopped gracefully has left. One that was killed, or ended without leaving, counts
as a member until its session timeout, and then the group can be joined: a takeover waits for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from logstate.contracts.clients import Step, Steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, ForeignGroupError

_LOGGER = logging.getLogger(__name__)

#: the JVM's default session timeout is 45 s
_PATIENCE_MS = 120_000.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 2.0
#: after this long without the error, the next one starts a new wait
_FORGOTTEN_MS = 30_000.0
_WHO = "Most likely Kafka Streams on the JVM runs under the same application.id"


class ProtocolConflict:
    """Waits until the other members are gone, with increasing delays between attempts to join."""

    def __init__(self, group_id: str, wait: Callable[[float], None]) -> None:
        self._group_id = group_id
        self._wait = wait
        self._since_ms = self._last_ms = float("-inf")
        self._next_s = _FIRST_WAIT_S

    def wait(self, now_ms: float, cause: ForeignGroupError) -> Steps[None]:
        """Wait before the next attempt. Raises BrokerError after two minutes."""
        if now_ms - self._last_ms > _FORGOTTEN_MS:
            self._since_ms, self._next_s = now_ms, _FIRST_WAIT_S
            _LOGGER.warning(
                "group %r has members that use another protocol: %s. %s: a killed member counts"
                " until its session timeout (45 s by default); waiting for that",
                self._group_id,
                text_of(cause),
                _WHO,
            )
        self._last_ms = now_ms
        waited_ms = now_ms - self._since_ms
        if waited_ms >= _PATIENCE_MS:
            raise BrokerError(
                f"group {self._group_id!r} still has members that use another protocol after"
                f" {waited_ms / 1000:.0f} s: {cause}. {_WHO}: stop all its instances, then start"
                " again. If none runs, the group has the type 'streams' (group.protocol=streams on"
                " the JVM), which only members that use the classic protocol can replace: start"
                " once with group_protocol='classic'"
            ) from cause
        yield Step("wait_for_group", self._wait, (self._next_s,))
        self._next_s = min(2 * self._next_s, _LONGEST_WAIT_S)
