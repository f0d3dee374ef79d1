"""One task, its disk and the maintenance between its commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.changelog.state import TaskState
from logstate.commit.maintenance import Maintenance
from logstate.contracts.clock import ManualClock
from logstate.contracts.stores import ValueAndTimestamp
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.owned_task import OwnedTask
from logstate.topology import StreamsBuilder
from tests.unit.logstate.task.task_bench import TaskBench
from tests.unit.logstate.worker.worker_rig import KeptRows

CONFIG = WorkerConfig(
    "app",
    "tx",
    checkpoint_interval_ms=10_000,
    checkpoint_rows_max=5,
    checkpoint_bytes=1_000,
    waiting_rows_max=8,
    cache_bytes=20_000,
    purge_interval_ms=30_000,
    idle_commit_interval_ms=600_000,
)


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


def by_text(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.reduce(lambda old, new: old + new, store="texts")


class Keeper:
    """One task, its disk and the maintenance."""

    def __init__(
        self,
        declare: Callable[[StreamsBuilder], object] = counted,
        sub_topology: int = 0,
        config: WorkerConfig = CONFIG,
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.disk = KeptRows()
        self.bench = TaskBench(declare, sub_topology=sub_topology, clock=self.clock)
        task = self.bench.task
        (sub,) = [s for s in self.bench.topology.sub_topologies if s.id == sub_topology]
        self.declare = declare
        self.maintenance = Maintenance(config, self.clock)
        task.state.close()
        self.state = task.state = TaskState(sub.stores, task, backend=self.disk)
        self.state.apply(self.clock.wall_clock_ms())
        self.owned = OwnedTask(task.task_id, task.partitions, 1, task)

    def put(self, *keys: str, store: str = "counts") -> None:
        """Write rows straight into the store and commit them."""
        found: Any = self.state.stores[store]
        for key in keys:
            found.put(key, ValueAndTimestamp(1, 0))
        self.state.committed(self.state.freeze(), {})

    def after_commit(self) -> None:
        self.maintenance.apply_if_due([self.owned], self.clock.monotonic_ms())

    def stored(self) -> int:
        return len(list(self.disk.scan(b"\x01", b"\x02")))

    @property
    def caught_up_at_ms(self) -> int:
        return self.state.meta.caught_up_at_ms
