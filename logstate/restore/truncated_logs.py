"""Detect changelogs that end before the target of a restore, which would wait forever.

A target is the end that a log had when its task was prepared. A leader without the log's tail may
take over (an unclean election), or the log is truncated: no records arrive after its new end and
the restore makes no progress. Waiting for an open transaction looks the same. So if a restore makes
no progress for a while, the end of its log is requested again.

The client reports a position beyond the end (``Polled.out_of_range``).
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

#: a restore without progress for this long is checked, and again after each such interval
_PATIENCE_MS = 2_000.0


class _RestorePosition(NamedTuple):
    """The position of a restore, and when the end of its log is requested."""

    position: int
    look_at_ms: float


class TruncatedLogs:
    """Tracks the restores of one worker and how long they have made no progress."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._stands: dict[TopicPartition, _RestorePosition] = {}

    def found(
        self, admin: Admin, reading: Mapping[TopicPartition, tuple[int, int]]
    ) -> Steps[dict[TopicPartition, int]]:
        """Return logs that end before their target. ``reading``: log -> position and target."""
        now, known = self._monotonic_ms(), self._stands
        self._stands = {}
        for log, (position, _) in reading.items():
            stand = known.get(log)
            if stand is None or stand.position != position:
                stand = _RestorePosition(position, now + _PATIENCE_MS)
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
            _LOGGER.debug("could not check whether logs were truncated: %s", text_of(exc))
            return {}
        return {log: ends[log] for log in due if ends[log] < reading[log][1]}
