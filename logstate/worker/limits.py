"""Limits of a worker: failing transactions, and attempts to start."""

from __future__ import annotations

import logging
from collections import deque

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    LostMemberError,
    OutOfRangeError,
    RefusedError,
    RetriableError,
)
from logstate.contracts.worker_config import WorkerConfig
from logstate.worker.outage import NO_TROUBLE, Trouble

_LOGGER = logging.getLogger(__name__)

#: aborts in a row that are replayed at once, and how many are logged at WARNING only
_AT_ONCE_MAX = 2
_QUIET_MAX = 5
_TOLD_EVERY_MS = 60_000.0
#: after this long without a failure, the next one starts a new row
_ROW_ENDS_MS = 60_000.0
#: delay between two attempts to start, or aborts in a row: doubled each time, up to the maximum
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_UNSTABLE = (
    ". The brokers are unstable or another process uses this transactional id; check their logs"
)


class PartitionsLost(FencedError):
    """The partitions were lost; not counted as a failed transaction."""


class AbortLimit:
    """Raises BrokerError if there are more than ``aborts_max`` aborts within ``window_ms``.

    One abort is normal operation (a stall, a rebalance); a series of them is a fault that no replay
    can fix, and hiding it would look like an application that has silently stopped.
    """

    def __init__(self, aborts_max: int, window_ms: int, *, what: str = "transactions") -> None:
        self._aborts_max = aborts_max
        self._window_ms = window_ms
        self._what = what
        self._times: deque[float] = deque()

    def note(self, now_ms: float, cause: LogstateError, blame: str = "") -> None:
        """Count an abort; raise BrokerError if there were too many."""
        self._times.append(now_ms)
        while now_ms - self._times[0] > self._window_ms:
            self._times.popleft()
        if len(self._times) > self._aborts_max:
            raise BrokerError(
                f"{len(self._times)} {self._what} failed within {self._window_ms // 60_000}"
                f" minutes; the last cause: {cause}{blame or _UNSTABLE}, then start again"
            ) from cause


class FailureLimits:
    """Limits failures of a worker, and computes the pause after failures of the brokers.

    Errors returned by the brokers are not the fault of this process, and a new process would meet
    them as well: the worker pauses, longer each time while nothing is committed in between, and
    tries again. Failures with other causes are limited: functions that outlast a transaction,
    damaged stores, another process with the same transactional id.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._aborts = AbortLimit(config.aborts_max, config.aborts_window_ms)
        self._rejoins = AbortLimit(config.rejoins_max, config.aborts_window_ms, what="memberships")
        #: aborts since the last commit, and the number of commits at that time
        self._in_a_row = self._commits = 0
        self._rests_until_ms = self._told_ms = float("-inf")

    def note(
        self,
        now_ms: float,
        cause: LogstateError,
        trouble: Trouble = NO_TROUBLE,
        blame: str = "",
        commits: int = 0,
    ) -> None:
        """Count a failure; raise BrokerError if there were too many of its kind.

        ``blame`` explains this failure if the brokers are not the cause. ``commits``: number of
        successful commits.
        """
        if isinstance(cause, LostMemberError):
            self._rejoins.note(now_ms, cause, blame)
        elif trouble.is_away or isinstance(cause, RefusedError | PartitionsLost):
            return
        elif not blame and _is_of_brokers(cause, trouble):
            self._wait_after_failure(now_ms, cause, commits)
        else:
            self._aborts.note(now_ms, cause, blame)

    def must_wait(self, now_ms: float) -> bool:
        """Return True if tasks must not be started yet."""
        return now_ms < self._rests_until_ms

    def _wait_after_failure(self, now_ms: float, cause: LogstateError, commits: int) -> None:
        if commits != self._commits or now_ms - self._rests_until_ms > _ROW_ENDS_MS:
            self._in_a_row, self._commits = 0, commits
        self._in_a_row += 1
        times = self._in_a_row - _AT_ONCE_MAX
        wait_s = min(_FIRST_WAIT_S * 2.0 ** min(times - 1, 16), _LONGEST_WAIT_S) if times > 0 else 0
        self._rests_until_ms = now_ms + 1_000 * wait_s
        if self._in_a_row > _QUIET_MAX and now_ms - self._told_ms >= _TOLD_EVERY_MS:
            self._told_ms = now_ms
            _LOGGER.error(
                "%d transactions in a row failed without a commit in between; the last cause: %s."
                " The brokers are unstable: check their logs. The worker keeps trying, every %.1f"
                " s at most",
                self._in_a_row,
                text_of(cause),
                _LONGEST_WAIT_S,
            )


def _is_of_brokers(cause: LogstateError, trouble: Trouble) -> bool:
    """A transaction that timed out while its coordinator was down is fenced as well."""
    if isinstance(cause, FencedError):
        return trouble.was_lately
    return isinstance(cause, AbortableError | RetriableError)


def replay_level(cause: LogstateError, trouble: Trouble) -> int:
    """Return the level at which a replay is logged: it follows from an outage that was reported."""
    is_expected = trouble.is_reported and isinstance(
        cause, AbortableError | RetriableError | FencedError
    )
    return logging.DEBUG if is_expected else logging.WARNING


def replay_line(cause: LogstateError, blame: str) -> str:
    """Return the text that says what the worker does after a failure.

    A text, because a handler that keeps the error would keep the stores open.
    """
    follows = "the transaction is aborted and its records are replayed"
    if isinstance(cause, OutOfRangeError):
        follows = (
            "the transaction is aborted and the committed offsets are read again, because the next"
            " records to read do not exist"
        )
    return f"{follows}: {cause}{blame}"


class StartupTimeout:
    """Limits how long a start waits for brokers that do not answer, and computes the retry delays.

    ``timeout_ms`` None waits forever, so that an orchestrator may start everything at once in any
    order.
    """

    def __init__(self, timeout_ms: int | None, now_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._began_ms = now_ms
        self._next_s = _FIRST_WAIT_S

    def wait_s(self, now_ms: float, cause: RetriableError, refusal: str | None) -> float:
        """Return the delay before the next attempt; raise BrokerError if there is none.

        ``refusal`` is the reason why the brokers reject the client: they are available, and waiting
        will not change their answer.
        """
        if refusal is not None:
            raise BrokerError(
                f"the brokers refuse this client: {refusal}. Correct the credentials and"
                " certificates in kafka={...}, then start again"
            ) from cause
        waited_ms = now_ms - self._began_ms
        if self._timeout_ms is not None and waited_ms >= self._timeout_ms:
            raise BrokerError(
                f"the brokers did not answer within {waited_ms / 1000:.0f} s, and start_timeout"
                f" allows {self._timeout_ms / 1000:g} s: {cause}"
            ) from cause
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, _LONGEST_WAIT_S)
        return wait_s
