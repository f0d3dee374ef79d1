"""Detect that the brokers are unavailable, and log the start, a reminder each minute, and the end.

Only requests and answers decide whether the brokers are unavailable, never the log lines of a
client: one of three brokers may be down, or an idle connection may be closed, although nothing is
wrong. A client error is a reason to send a request at once, and it is the reason that is logged.

    client error, or silence -> request -> an answer     : all is well
                                        -> no answer     : unavailable, since the last answer
    unavailable              -> request in each check    : until there is an answer

The caller reads clocks, sends requests, and logs the notes. Times are monotonic.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

from logstate.contracts.clients import ClientErrors

#: interval of requests without client errors
SILENCE_MS = 5_000
REMINDER_MS = 60_000
#: without a client error, one unanswered request may be a pause of this process itself
_UNANSWERED_MAX = 2


class Note(NamedTuple):
    """A log message."""

    level: int
    text: str


class Trouble(NamedTuple):
    """The current state of the brokers."""

    is_away: bool
    #: a client had an error within the last minute, or the brokers did not answer
    was_lately: bool
    #: an outage, which the log reports, continues or ended within the last minute
    is_reported: bool = False


NO_TROUBLE = Trouble(is_away=False, was_lately=False)


@dataclass
class Outage:
    """State of the brokers. ``brokers`` as configured; ``now_ms``: when the checks began."""

    brokers: str
    now_ms: float

    def __post_init__(self) -> None:
        self._answered_ms = self._asked_ms = self.now_ms
        self._has_answered = False
        self._unanswered = 0
        self._noted_ms = float("-inf")
        self._lines = 0
        self._reason: str | None = None
        #: time of the last answer if the brokers are unavailable; else None
        self.since_ms: float | None = None
        #: time of the last client error or unanswered request
        self._troubled_ms = float("-inf")
        #: time of the first answer after the last outage
        self._back_ms = float("-inf")
        #: why the brokers reject clients, if they do; waiting will not change that
        self.refusal: str | None = None

    def must_send_request(self, now_ms: float, client_errors: ClientErrors) -> bool:
        """Return True if a request must be sent now."""
        self._lines += client_errors.lines
        self._reason = client_errors.reason or self._reason
        if client_errors.reason:
            self._troubled_ms = now_ms
        is_doubtful = bool(client_errors.lines or client_errors.reason or self._unanswered)
        return is_doubtful or not self._has_answered or now_ms - self._asked_ms >= SILENCE_MS

    def answered(self, now_ms: float) -> Note | None:
        """Handle an answer."""
        since_ms, reason, lines = self.since_ms, self._reason, self._lines
        self._answered_ms = self._asked_ms = now_ms
        self._has_answered = True
        self._unanswered = self._lines = 0
        self._reason = self.since_ms = self.refusal = None
        if since_ms is not None:
            self._back_ms = now_ms
            return Note(
                logging.INFO,
                f"the brokers at {self.brokers} answer again after {_seconds(now_ms - since_ms)};"
                f" the clients logged {lines} lines about it meanwhile",
            )
        if reason is None or now_ms - self._noted_ms < REMINDER_MS:
            return None  # without a reason it was an idle connection that was closed
        self._noted_ms = now_ms
        return Note(
            logging.WARNING,
            f"a client lost a connection, but the brokers at {self.brokers} answer others:"
            f" {reason} ({lines} log lines of the clients). One broker may be"
            " down or restarting; further lines are logged at most once a minute",
        )

    def unanswered(self, now_ms: float, client_errors: ClientErrors, affected: str) -> Note | None:
        """Handle a timed-out request. ``affected`` describes the consequences."""
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
        return Note(logging.WARNING, self._message(now_ms, affected, is_new=is_new))

    def trouble(self, now_ms: float) -> Trouble:
        """Report whether the brokers are unavailable or were in trouble recently."""
        is_away = self.since_ms is not None
        was_lately = now_ms - self._troubled_ms < REMINDER_MS
        return Trouble(is_away, was_lately, is_away or now_ms - self._back_ms < REMINDER_MS)

    def summary(self, now_ms: float | None) -> str:
        """Return a text to append to another sentence; empty if the brokers answer."""
        if self.since_ms is None or now_ms is None:
            return ""
        return (
            f"; the brokers at {self.brokers} have been unavailable for"
            f" {_seconds(now_ms - self.since_ms)}: {self._reason or 'no answer'}"
        )

    def _message(self, now_ms: float, affected: str, *, is_new: bool) -> str:
        away = _seconds(now_ms - self._answered_ms)
        since = f"for {away}" if self._has_answered else f"in the {away} since the start"
        reason = self._reason or "unknown reason, no answer"
        doubt = "" if self._has_answered else " Check bootstrap= and the settings in kafka={...}."
        lines = "" if is_new else f" The clients logged {self._lines} lines about it."
        return (
            f"the brokers at {self.brokers} have not answered {since}: {reason}."
            f" {affected}{doubt}{lines}"
        )


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s"
