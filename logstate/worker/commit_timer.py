"""When a worker commits: after the interval, when it is asked to, and now and then when idle."""

from __future__ import annotations

from logstate.commit.transaction import Transactions
from logstate.contracts.clock import Clock
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.task_table import TaskTable

#: the longest wait for records while nothing is due
_IDLE_POLL_S = 0.1


class CommitTimer:
    """Looks at the tasks and the open transaction of one worker."""

    def __init__(
        self, config: WorkerConfig, clock: Clock, transactions: Transactions, tasks: TaskTable
    ) -> None:
        self._config = config
        self._clock = clock
        self._transactions = transactions
        self._tasks = tasks
        self._last_ms = 0.0

    def start(self) -> None:
        """The interval begins now: with a start, a commit, an abort."""
        self._last_ms = self._clock.monotonic_ms()

    def is_due(self) -> bool:
        """Whether to commit now."""
        idle_ms = self._clock.monotonic_ms() - self._last_ms
        return (
            idle_ms >= self._config.commit_interval_ms
            or any(owned.running.wants_commit for owned in self._tasks.running())
        ) and self.has_reason()

    def has_reason(self) -> bool:
        """Whether there is anything to commit."""
        idle_ms = self._clock.monotonic_ms() - self._last_ms
        return (
            self._transactions.is_open
            or self._has_uncommitted()
            or idle_ms >= self._config.idle_commit_interval_ms
        )

    def idle_timeout_s(self) -> float:
        """How long a poll may wait for records."""
        if not self._transactions.is_open and not self._has_uncommitted():
            return _IDLE_POLL_S
        until = self._last_ms + self._config.commit_interval_ms - self._clock.monotonic_ms()
        return min(_IDLE_POLL_S, max(0.0, until / 1000))

    def _has_uncommitted(self) -> bool:
        for owned in self._tasks.running():
            task = owned.running
            if task.has_uncommitted_input or task.outputs:
                return True
        return False
