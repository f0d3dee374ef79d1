"""Brokers that are away: noticed, told once, told again each minute, and told when it is over.

Theory. Whether the brokers are away is decided by questions and answers alone, never by what a
client complains about: of three brokers one may be gone, an idle connection may be closed, and
nothing is wrong. A complaint is a reason to ask at once, and it is the reason that is told.

    complaint, or silence for long -> ask -> an answer     : all is well
                                          -> none          : away, since the last answer
    away                           -> ask again each look  : until there is an answer

Pure: the caller looks at clocks, asks, and logs what it is given. Times are monotonic.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

from logstate.contracts.clients import ClientErrors

#: without a complaint it is asked this often
SILENCE_MS = 5_000
REMINDER_MS = 60_000
#: without a complaint, one question without an answer may be a pause of this process itself
_UNANSWERED_MAX = 2


class Note(NamedTuple):
    """A line for the log."""

    level: int
    text: str


class Trouble(NamedTuple):
    """What is known of the brokers now."""

    is_away: bool
    #: a client complained with a reason within the last minute, or they did not answer
    was_lately: bool


NO_TROUBLE = Trouble(is_away=False, was_lately=False)


@dataclass
class Outage:
    """See the module. ``brokers`` as they were configured; ``now_ms`` is when the watch began."""

    brokers: str
    now_ms: float

    def __post_init__(self) -> None:
        self._answered_ms = self._asked_ms = self.now_ms
        self._has_answered = False
        self._unanswered = 0
        self._noted_ms = float("-inf")
        self._lines = 0
        self._reason: str | None = None
        #: since when the brokers are away: their last answer; None while they are not
        self.since_ms: float | None = None
        #: when a client had a reason to complain, or there was no answer
        self._troubled_ms = float("-inf")
        #: why they let nobody in, where that is what they say, and waiting will not change it
        self.refusal: str | None = None

    def wants_answer(self, now_ms: float, client_errors: ClientErrors) -> bool:
        """Whether the brokers have to be asked now."""
        self._lines += client_errors.lines
        self._reason = client_errors.reason or self._reason
        if client_errors.reason:
            self._troubled_ms = now_ms
        is_doubtful = bool(client_errors.lines or client_errors.reason or self._unanswered)
        return is_doubtful or not self._has_answered or now_ms - self._asked_ms >= SILENCE_MS

    def answered(self, now_ms: float) -> Note | None:
        """There was an answer."""
        since_ms, reason, lines = self.since_ms, self._reason, self._lines
        self._answered_ms = self._asked_ms = now_ms
        self._has_answered = True
        self._unanswered = self._lines = 0
        self._reason = self.since_ms = self.refusal = None
        if since_ms is not None:
            return Note(
                logging.INFO,
                f"the brokers at {self.brokers} answer again after {_seconds(now_ms - since_ms)};"
                f" the clients wrote {lines} lines about it meanwhile",
            )
        if reason is None or now_ms - self._noted_ms < REMINDER_MS:
            return None  # without one it is a connection that was closed because it was idle
        self._noted_ms = now_ms
        return Note(
            logging.WARNING,
            f"a client lost a connection, and the brokers at {self.brokers} answer others:"
            f" {reason} ({lines} lines of the clients). One broker may be"
            " down or restarting; more of this is told once a minute at most",
        )

    def unanswered(self, now_ms: float, client_errors: ClientErrors, affected: str) -> Note | None:
        """There was none in time. ``affected`` says what that means here and now."""
        self._asked_ms = self._troubled_ms = now_ms
        self._unanswered += 1
        self._lines += client_errors.lines
        self._reason = client_errors.reason or self._reason
        if client_errors.is_refusal:
            self.refusal = self._reason
        if self._reason is None and self._unanswered < _UNANSWERED_MAX:
            return None
        is_new = self.since_ms is None
        if is_new:
            self.since_ms = self._answered_ms
        elif now_ms - self._noted_ms < REMINDER_MS:
            return None
        self._noted_ms = now_ms
        return Note(logging.WARNING, self._told(now_ms, affected, is_new=is_new))

    def trouble(self, now_ms: float) -> Trouble:
        """Whether they are away, or were in trouble lately."""
        return Trouble(self.since_ms is not None, now_ms - self._troubled_ms < REMINDER_MS)

    def summary(self, now_ms: float | None) -> str:
        """What to add to a sentence about something else; empty where all is well."""
        if self.since_ms is None or now_ms is None:
            return ""
        return (
            f"; the brokers at {self.brokers} have been away for"
            f" {_seconds(now_ms - self.since_ms)}: {self._reason or 'they are silent'}"
        )

    def _told(self, now_ms: float, affected: str, *, is_new: bool) -> str:
        away = _seconds(now_ms - self._answered_ms)
        since = f"for {away}" if self._has_answered else f"in the {away} since the start"
        reason = self._reason or "no reason is known, they are silent"
        doubt = "" if self._has_answered else " Check bootstrap= and the settings in kafka={...}."
        lines = "" if is_new else f" The clients wrote {self._lines} lines about it."
        return (
            f"the brokers at {self.brokers} have not answered {since}: {reason}."
            f" {affected}{doubt}{lines}"
        )


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s"
