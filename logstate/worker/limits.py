"""What a worker bounds: transactions that fail, and attempts to start."""

from __future__ import annotations

from collections import deque

from logstate.contracts.errors import (
    BrokerError,
    LogstateError,
    LostMemberError,
    OutOfRangeError,
    RetriableError,
)
from logstate.contracts.worker_config import WorkerConfig

#: between two attempts to start: doubled each time, up to the longest
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_UNSTABLE = (
    ". The brokers are unstable or another process uses this transactional id; look at their logs"
)


class AbortLimit:
    """Raises once more than ``aborts_max`` aborts fall into ``window_ms``.

    One abort is normal operation (a stall, a rebalance in between); a loop of them is a fault that
    no replay will mend, and hiding it would look like a silent stop.
    """

    def __init__(self, aborts_max: int, window_ms: int, *, what: str = "transactions") -> None:
        self._aborts_max = aborts_max
        self._window_ms = window_ms
        self._what = what
        self._times: deque[float] = deque()

    def note(self, now_ms: float, cause: LogstateError, blame: str = "") -> None:
        """Count an abort; raises BrokerError when there were too many."""
        self._times.append(now_ms)
        while now_ms - self._times[0] > self._window_ms:
            self._times.popleft()
        if len(self._times) > self._aborts_max:
            raise BrokerError(
                f"{len(self._times)} {self._what} failed within {self._window_ms // 60_000}"
                f" minutes; the last one because: {cause}{blame or _UNSTABLE}, then start again"
            ) from cause


class FailureLimits:
    """How many failures a worker survives. Those while the brokers are away are no sign of more."""

    def __init__(self, config: WorkerConfig) -> None:
        self._aborts = AbortLimit(config.aborts_max, config.aborts_window_ms)
        self._rejoins = AbortLimit(config.rejoins_max, config.aborts_window_ms, what="memberships")

    def note(self, now_ms: float, cause: LogstateError, *, is_away: bool, blame: str = "") -> None:
        """Count a failure; raises BrokerError when there were too many of its kind.

        ``blame`` is what explains this one, where something other than the brokers does.
        """
        if isinstance(cause, LostMemberError):
            self._rejoins.note(now_ms, cause, blame)
        elif not is_away:
            self._aborts.note(now_ms, cause, blame)


def what_follows(cause: LogstateError) -> str:
    """What a worker does after a failure, as the beginning of a line in the log."""
    if isinstance(cause, OutOfRangeError):
        return (
            "the transaction is aborted and the committed offsets are read again, because records"
            " that were to be read next are not there"
        )
    return "the transaction is aborted and its records are replayed"


class StartPatience:
    """How long a start goes on while the brokers do not answer, and how long it waits in between.

    ``timeout_ms`` None waits for ever: an orchestrator that starts everything at once must not have
    to know the order.
    """

    def __init__(self, timeout_ms: int | None, now_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._began_ms = now_ms
        self._next_s = _FIRST_WAIT_S

    def wait_s(self, now_ms: float, cause: RetriableError, refusal: str | None) -> float:
        """The wait before the next attempt; raises BrokerError where there is none.

        ``refusal`` is what brokers said that let nobody in: they are there, and will say it again.
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
