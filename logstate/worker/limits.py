"""What a worker bounds: transactions that fail, and records that wait in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from logstate.contracts.errors import BrokerError, LogstateError
from logstate.contracts.seams import GroupConsumer, Step, Steps
from logstate.task.owned_task import OwnedTask


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

    def note(self, now_ms: float, cause: LogstateError) -> None:
        """Count an abort; raises BrokerError when there were too many."""
        self._times.append(now_ms)
        while now_ms - self._times[0] > self._window_ms:
            self._times.popleft()
        if len(self._times) > self._aborts_max:
            raise BrokerError(
                f"{len(self._times)} {self._what} failed within {self._window_ms // 60_000}"
                f" minutes; the last one because: {cause}. The brokers are unstable or another"
                " process uses this transactional id; look at their logs, then start again"
            ) from cause


def pause_or_resume(
    consumer: GroupConsumer, tasks: Iterable[OwnedTask], buffered_max: int
) -> Steps[None]:
    """Pause partitions with more than ``buffered_max`` records waiting, resume below half of it.

    A task of several partitions may hold one back for long while it waits for another's records.
    """
    for owned in tasks:
        buffered, paused = owned.task.buffered, owned.paused
        full = [tp for tp in owned.partitions if tp not in paused and buffered(tp) > buffered_max]
        if full:
            yield Step("pause", consumer.pause, (full,))
            paused.update(full)
        drained = [tp for tp in paused if buffered(tp) < buffered_max // 2]
        if drained:
            yield Step("resume", consumer.resume, (drained,))
            paused.difference_update(drained)
