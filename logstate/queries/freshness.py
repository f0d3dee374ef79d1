"""The age of a local result, and its limit.

Committed rows stay readable while the brokers are unavailable and while their task restarts; then
they lack the records that were processed since, here or elsewhere. Their age is the time since they
were last known to be the newest: since the last commit, or since the task had nothing to commit and
the brokers responded. It does not include records that wait to be processed (the lag does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from logstate.contracts.errors import StoreUnavailableError
from logstate.task.owned_task import OwnedTask


def _nothing() -> float | None:
    return None


@dataclass(frozen=True)
class Freshness:
    """Computes ages by a monotonic clock; ``max_age`` None accepts any result."""

    now_ms: Callable[[], float | None] = _nothing
    #: returns since when the brokers are unavailable
    away_since_ms: Callable[[], float | None] = _nothing
    max_age: timedelta | None = None

    def age_ms(self, owned: OwnedTask) -> float:
        """Return the age of the committed rows of a task that ran."""
        now, current, away = self.now_ms(), owned.current_ms, self.away_since_ms()
        if now is None or current is None:
            return 0.0
        return max(0.0, now - (current if away is None else min(current, away)))

    def check(self, store: str, owned: OwnedTask) -> None:
        """Raise StoreUnavailableError if the rows are older than allowed."""
        if self.max_age is None:
            return
        age_ms = self.age_ms(owned)
        if age_ms <= self.max_age.total_seconds() * 1000:
            return
        why = (
            f"its task is {owned.stage.value}"
            if self.away_since_ms() is None
            else "the brokers are unavailable"
        )
        raise StoreUnavailableError(
            f"store {store!r}: the rows of partition {owned.task_id.partition} here are"
            f" {age_ms / 1000:.1f} s old, and max_age allows"
            f" {self.max_age.total_seconds():g} s; {why}. Retry, ask another instance, or accept"
            " older results with a larger max_age"
        )
