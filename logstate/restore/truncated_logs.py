"""Changelogs that end before what a restore has to reach: it would wait for ever.

A target is the end that a log had when its task was prepared. A leader that lacks the log's tail
may take over (an unclean election), or somebody cuts the log off: nothing comes where it ends now,
and the restore stands still there. One that waits for an open transaction looks the same. So where
a restore stands still for a while, the end of its log is asked for again.

A position beyond the end is told by the client (``Polled.out_of_range``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, TopicError
from logstate.contracts.records import TopicPartition

_LOGGER = logging.getLogger(__name__)

#: a restore that stands still for so long is looked into, and again each time
_PATIENCE_MS = 2_000.0


class _Stand(NamedTuple):
    """Where a restore stands, and when its log is asked for its end."""

    position: int
    look_at_ms: float


class TruncatedLogs:
    """What the restores of one worker read, and how long they have stood still."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._stands: dict[TopicPartition, _Stand] = {}

    def found(
        self, admin: Admin, reading: Mapping[TopicPartition, tuple[int, int]]
    ) -> Steps[dict[TopicPartition, int]]:
        """Of what is read, each with position and target: the logs that end before the target."""
        now, known = self._monotonic_ms(), self._stands
        self._stands = {}
        for log, (position, _) in reading.items():
            stand = known.get(log)
            if stand is None or stand.position != position:
                stand = _Stand(position, now + _PATIENCE_MS)
            self._stands[log] = stand
        due = [log for log, stand in self._stands.items() if stand.look_at_ms <= now]
        if not due:
            return {}
        for log in due:
            self._stands[log] = self._stands[log]._replace(look_at_ms=now + _PATIENCE_MS)
        try:
            ends: Mapping[TopicPartition, int] = yield Step(
                "restore_ends", admin.end_offsets, (due,)
            )
        except (BrokerError, TopicError) as exc:
            _LOGGER.debug("it is not known whether logs were shortened: %s", text_of(exc))
            return {}
        return {log: ends[log] for log in due if ends[log] < reading[log][1]}
