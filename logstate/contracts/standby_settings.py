"""The settings of standby copies of the tasks' state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from logstate.contracts.setting_rules import duration, shown


@dataclass(frozen=True, kw_only=True)
class StandbySettings:
    """How standby copies are kept; for ``Application(standby_replicas=...)``.

    Args:
        replicas: how many other instances keep a copy of each task's state.
        bytes_per_s: how fast a worker reads for its standbys; None: without a limit.
        acceptable_lag: an instance first copies the state of its future tasks, and joins when it
            lags by no more than so many records of each changelog; None joins at once.
        warm_up_timeout: it joins after this time regardless of its lag.

    Example:
        >>> StandbySettings(replicas=1, bytes_per_s=50_000_000).acceptable_lag
        10000
    """

    replicas: int = 1
    bytes_per_s: int | None = None
    acceptable_lag: int | None = 10_000
    warm_up_timeout: timedelta = timedelta(minutes=10)

    @classmethod
    def of(cls, given: int | StandbySettings) -> StandbySettings:
        """Return the settings; a number means ``replicas``."""
        return given if isinstance(given, cls) else cls(replicas=given)  # type: ignore[arg-type]

    def problems(self) -> Iterator[str]:
        """Yield what is wrong; the types of the arguments are not enforced."""
        replicas: object = self.replicas
        if not _is_count(replicas):
            found = shown(replicas)
            yield f"standby_replicas must be a number of instances, 0 or more; got {found}"
        rate: object = self.bytes_per_s
        if rate is not None and (not _is_count(rate) or not rate):
            yield f"bytes_per_s of standbys must be a positive number or None; got {shown(rate)}"
        lag: object = self.acceptable_lag
        if lag is not None and not _is_count(lag):
            yield f"acceptable_lag must be a number of records or None; got {shown(lag)}"
        yield from duration("warm_up_timeout of standbys", self.warm_up_timeout)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
