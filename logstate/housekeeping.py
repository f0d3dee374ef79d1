"""What a worker does between commits that no result depends on: applying, freeing, purging."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from logstate.bound_plan import BoundPlan
from logstate.clock import Clock
from logstate.errors import BrokerError
from logstate.owned_task import OwnedTask
from logstate.seams import Admin, Step, Steps
from logstate.worker_config import WorkerConfig

_LOGGER = logging.getLogger(__name__)


class Housekeeping:
    """Decides when committed rows reach the local store and when internal records go."""

    def __init__(self, config: WorkerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._last_apply_ms = clock.monotonic_ms()
        self._last_purge_ms = clock.monotonic_ms()

    def apply_if_due(self, tasks: Sequence[OwnedTask], now_ms: float) -> None:
        """Write committed rows to the local stores, rarely: the changelog is the durable copy."""
        config = self._config
        is_time = now_ms - self._last_apply_ms >= config.checkpoint_interval_ms
        for owned in tasks:
            state = owned.running.state
            rows = state.unapplied_rows()
            if (is_time and rows) or rows >= config.checkpoint_rows_max or state.applies_always:
                state.apply(self._clock.wall_clock_ms())
            if state.cached_rows() > config.cached_rows_max:
                state.drop_caches()
        if is_time:
            self._last_apply_ms = now_ms

    def purge(
        self, admin: Admin, plan: BoundPlan, tasks: Sequence[OwnedTask], now_ms: float
    ) -> Steps[None]:
        """Delete committed repartition records; failing to is not fatal, only wasteful."""
        if now_ms - self._last_purge_ms < self._config.purge_interval_ms:
            return
        self._last_purge_ms = now_ms
        before = {
            tp: offset
            for owned in tasks
            for tp, offset in owned.running.consumed.items()
            if tp.topic in plan.repartition_topics and offset > 0
        }
        if before:
            try:
                yield Step("delete_records", admin.delete_records, (before,))
            except BrokerError as exc:
                _LOGGER.warning("repartition records could not be purged: %s", exc)
