"""How old a local answer is, and how old it may be.

Committed rows stay readable when the brokers are away and while their task is started again; what
they lack then is what was processed since, here or elsewhere. Their age is the time since they were
last known to be the newest: since the last commit, or since the task had nothing to commit and the
brokers answered. It says nothing about records that wait to be processed (the lag does).
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
    """Ages by a monotonic clock; ``max_age`` None takes any answer."""

    now_ms: Callable[[], float | None] = _nothing
    #: since when the brokers are away
    away_since_ms: Callable[[], float | None] = _nothing
    max_age: timedelta | None = None

    def age_ms(self, owned: OwnedTask) -> float:
        """Of the committed rows of a task that ran."""
        now, current, away = self.now_ms(), owned.current_ms, self.away_since_ms()
        if now is None or current is None:
            return 0.0
        return max(0.0, now - (current if away is None else min(current, away)))

    def check(self, store: str, owned: OwnedTask) -> None:
        """Raises StoreUnavailableError where the rows are older than they may be."""
        if self.max_age is None:
            return
        age_ms = self.age_ms(owned)
        if age_ms <= self.max_age.total_seconds() * 1000:
            return
        why = (
            f"its task is {owned.stage.value}"
            if self.away_since_ms() is None
            else "the brokers are away"
        )
        raise StoreUnavailableError(
            f"store {store!r}: what partition {owned.task_id.partition} holds here is"
            f" {age_ms / 1000:.1f} s old, and max_age allows"
            f" {self.max_age.total_seconds():g} s; {why}. Retry, ask another instance, or take"
            " older answers with a larger max_age"
        )
