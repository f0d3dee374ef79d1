"""What happens between commits: applying, freeing, purging, none of which changes a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from logstate.changelog.state import TaskState
from logstate.commit.maintenance import Maintenance
from logstate.contracts.clients import Steps, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import AbortableError, BrokerError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import ValueAndTimestamp
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.owned_task import OwnedTask
from logstate.testing import FakeCluster, Fault
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.unit.logstate.plans import by_word, plan_of
from tests.unit.logstate.task.task_bench import TaskBench
from tests.unit.logstate.worker.worker_rig import KeptRows, cluster_of

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


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


# --- applying -------------------------------------------------------------------------------------


def test_committed_rows_wait_for_the_checkpoint_interval(keeper: Keeper) -> None:
    keeper.put("a")
    keeper.after_commit()
    keeper.clock.advance(9_999)
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.clock.advance(1)
    keeper.after_commit()
    assert keeper.stored() == 1
    assert keeper.caught_up_at_ms == 1_010_000


def test_an_age_that_a_wrong_clock_told_is_told_again_as_soon_as_the_clock_is_right(
    keeper: Keeper,
) -> None:
    """An idle task writes it once in ten minutes; it was silent until the clock had caught up."""
    keeper.state.apply(80 * 31_536_000_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == 1_000_000


def test_tasks_that_came_together_are_applied_in_turn() -> None:
    keepers = [Keeper(), Keeper(), Keeper()]
    first, *_ = keepers
    tasks = [
        OwnedTask(TaskId(0, number), k.owned.partitions, 1, k.bench.task)
        for number, k in enumerate(keepers)
    ]
    applied: list[list[int]] = []
    for _ in range(7):
        for keeper in keepers:
            keeper.put("a")
        first.maintenance.apply_if_due(tasks, first.clock.monotonic_ms())
        applied.append([n for n, k in enumerate(keepers) if k.state.unapplied_rows() == 0])
        first.clock.advance(3_400)
    assert applied == [[], [0], [1], [2], [0], [1], [2]]


def test_the_interval_begins_anew_after_each_checkpoint(keeper: Keeper) -> None:
    keeper.after_commit()
    for _ in range(2):
        keeper.clock.advance(10_000)
        keeper.put("a")
        keeper.after_commit()
        assert keeper.state.unapplied_rows() == 0
        keeper.put("b")
        keeper.after_commit()
        assert keeper.state.unapplied_rows() == 1


def test_too_many_waiting_rows_do_not_wait(keeper: Keeper) -> None:
    keeper.put("a", "b", "c", "d")
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("e")
    keeper.after_commit()
    assert keeper.stored() == 5


def test_too_many_waiting_bytes_do_not_wait_however_few_rows_they_are(keeper: Keeper) -> None:
    keeper.put("x" * 400)
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("x" * 400)  # the same row, but a restart would replay it twice
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("y" * 400)
    keeper.after_commit()
    assert keeper.stored() == 2
    assert keeper.state.unapplied_bytes == 0


def test_waiting_rows_are_encoded_ahead_of_the_commit_now_and_then(keeper: Keeper) -> None:
    found: Any = keeper.state.stores["counts"]
    waiting = []
    for key, later_ms in (("a", 0), ("b", 99), ("c", 1)):
        keeper.clock.advance(later_ms)
        found.put(key, ValueAndTimestamp(1, 0))
        keeper.maintenance.encode_ahead([keeper.owned])
        waiting.append(len(found._behind.row_keys))
    assert waiting == [0, 1, 0]
    assert len(keeper.state.freeze().writes["counts"]) == 3


def test_rows_without_another_durable_copy_never_wait() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store=Materialized("counts", logged=False))

    keeper = Keeper(declare)
    keeper.put("a")
    keeper.after_commit()
    assert keeper.stored() == 1


def test_without_rows_nothing_is_written(keeper: Keeper) -> None:
    before = keeper.caught_up_at_ms
    keeper.clock.advance(10_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == before


def test_a_commit_after_long_says_that_the_rows_are_still_at_the_end(keeper: Keeper) -> None:
    """Else the rows of an idle task would look as if they had missed deletions."""
    keeper.clock.advance(600_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == keeper.clock.wall_clock_ms()


# --- memory ---------------------------------------------------------------------------------------


def together(keepers: list[Keeper]) -> Callable[[], None]:
    """Runs the maintenance of a worker that has the tasks of all of them."""
    tasks = [
        OwnedTask(TaskId(0, number), k.owned.partitions, 1, k.bench.task)
        for number, k in enumerate(keepers)
    ]
    first = keepers[0]
    return lambda: first.maintenance.apply_if_due(tasks, first.clock.monotonic_ms())


def test_clean_rows_within_the_bound_are_kept(keeper: Keeper) -> None:
    keeper.put(*map(str, range(20)))
    keeper.after_commit()
    assert keeper.state.cached_rows() == 20


def test_clean_rows_beyond_the_bound_are_evicted_the_oldest_first(keeper: Keeper) -> None:
    for number in range(200):
        keeper.put(str(number))
        keeper.after_commit()
        assert keeper.state.cached_bytes() <= CONFIG.cache_bytes
    held = list(keeper.state.stores["counts"]._behind.rows)  # type: ignore[union-attr]
    assert 20 < len(held) < 100
    assert held == [str(number) for number in range(200 - len(held), 200)]
    assert keeper.stored() + keeper.state.unapplied_rows() == 200


def test_evicted_rows_are_read_from_the_store_again(keeper: Keeper) -> None:
    keeper.put(*map(str, range(200)))
    keeper.after_commit()
    found: Any = keeper.state.stores["counts"]
    assert keeper.state.cached_rows() < 100
    assert [found.get(str(number)).value for number in range(200)] == [1] * 200


def test_all_tasks_of_a_worker_share_one_bound_for_clean_rows() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(300):
        keepers[number % 10].put(str(number))
        after_commit()
        assert sum(k.state.cached_bytes() for k in keepers) <= CONFIG.cache_bytes
    assert sum(bool(k.state.cached_rows()) for k in keepers) >= 5


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_the_bound_holds_for_few_large_rows_and_for_rows_that_become_larger(tasks: int) -> None:
    keepers = [Keeper(by_text) for _ in range(tasks)]
    after_commit = together(keepers)
    for number in range(200):
        found: Any = keepers[number % tasks].state.stores["texts"]
        found.put(str(number), ValueAndTimestamp("x" * 2 ** (number // 20), 0))
        keepers[number % tasks].state.committed(keepers[number % tasks].state.freeze(), {})
        after_commit()
        assert sum(k.state.cached_bytes() for k in keepers) <= CONFIG.cache_bytes
    assert sum(k.stored() + k.state.unapplied_rows() for k in keepers) == 200


def test_without_a_cache_no_clean_row_is_kept() -> None:
    keeper = Keeper(config=replace(CONFIG, cache_bytes=0))
    keeper.put(*map(str, range(20)))
    keeper.after_commit()
    assert keeper.state.cached_rows() == 0


def test_pending_rows_survive_an_eviction() -> None:
    keeper = Keeper(config=replace(CONFIG, cache_bytes=0))
    found: Any = keeper.state.stores["counts"]
    found.put("a", ValueAndTimestamp(7, 0))
    keeper.after_commit()
    assert found.get("a").value == 7
    assert len(keeper.state.freeze().writes["counts"]) == 1


def test_waiting_rows_are_bounded_over_all_tasks() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(100):
        keepers[number % 10].put(str(number))
        after_commit()
        assert sum(k.state.unapplied_rows() for k in keepers) < CONFIG.waiting_rows_max


def test_waiting_bytes_are_bounded_over_all_tasks() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(100):
        keepers[number % 10].put(str(number) + "x" * 200)
        after_commit()
        assert sum(k.state.unapplied_bytes for k in keepers) < CONFIG.checkpoint_bytes


# --- purging --------------------------------------------------------------------------------------

REPARTITION = TopicPartition("app-by-word-repartition", 0)


@pytest.fixture
def purging() -> tuple[Keeper, FakeCluster]:
    """A task that has committed three records of a repartition topic."""
    keeper = Keeper(by_word, sub_topology=1)
    cluster = cluster_of({"in": 1, "out": 1})
    cluster.create_topic(REPARTITION.topic, 1, {"cleanup.policy": "delete"})
    for number in range(4):
        cluster.produce(REPARTITION.topic, b"k", b"v", timestamp=number + 1)
    keeper.bench.task.committed_offsets = {REPARTITION: 3}
    return keeper, cluster


def purge(keeper: Keeper, cluster: FakeCluster) -> Steps[None]:
    plan = plan_of(keeper.declare, **{"in": 1})
    return keeper.maintenance.purge(
        cluster.admin(), plan, [keeper.owned], keeper.clock.monotonic_ms()
    )


def test_committed_repartition_records_are_deleted_when_the_interval_is_over(
    purging: tuple[Keeper, FakeCluster],
) -> None:
    keeper, cluster = purging
    keeper.clock.advance(29_999)
    run_steps(purge(keeper, cluster))
    assert cluster.log(REPARTITION).start == 0
    keeper.clock.advance(1)
    run_steps(purge(keeper, cluster))
    assert cluster.log(REPARTITION).start == 3
    keeper.bench.task.committed_offsets = {REPARTITION: 4}
    run_steps(purge(keeper, cluster))
    assert cluster.log(REPARTITION).start == 3, "not before the next interval"


def test_source_topics_are_never_purged(keeper: Keeper) -> None:
    cluster = cluster_of({"in": 1})
    cluster.produce("in", b"k", b"v", timestamp=1)
    keeper.bench.task.committed_offsets = {TopicPartition("in", 0): 1}
    keeper.clock.advance(30_000)
    run_steps(purge(keeper, cluster))
    assert cluster.log(TopicPartition("in", 0)).start == 0


def test_nothing_is_asked_where_there_is_nothing_to_purge(
    purging: tuple[Keeper, FakeCluster],
) -> None:
    keeper, cluster = purging
    keeper.bench.task.committed_offsets = {REPARTITION: 0}
    keeper.clock.advance(30_000)
    assert list(purge(keeper, cluster)) == []


@pytest.mark.parametrize("error", [BrokerError("not allowed"), AbortableError("slow")], ids=repr)
def test_failing_to_purge_is_not_fatal_and_is_tried_again_later(
    purging: tuple[Keeper, FakeCluster], error: BrokerError
) -> None:
    keeper, cluster = purging
    keeper.clock.advance(30_000)
    cluster.faults.add(Fault("delete_records", error))
    run_steps(purge(keeper, cluster))
    assert cluster.log(REPARTITION).start == 0
    keeper.clock.advance(30_000)
    run_steps(purge(keeper, cluster))
    assert cluster.log(REPARTITION).start == 3


def test_records_of_expired_windows_are_deleted_an_interval_later_and_live_ones_stay() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        windows = TumblingWindows(size=timedelta(minutes=1))
        store = Materialized("per-minute", segment_interval=timedelta(minutes=1))
        grouped.windowed_by(windows).count(store=store)

    keeper = Keeper(declare)
    changelog = TopicPartition("app-per-minute-changelog", 0)
    cluster = cluster_of({"in": 1})
    cluster.create_topic(changelog.topic, 1, {"cleanup.policy": "compact,delete"})
    store: Any = keeper.state.stores["per-minute"]
    for minute in range(4):
        cluster.produce(changelog.topic, b"k", b"v", timestamp=1)
        store.put("k", ValueAndTimestamp(minute, minute * 60_000), minute * 60_000)
        keeper.state.committed(keeper.state.freeze(), {"per-minute": minute + 1})
    keeper.clock.advance(30_000)
    run_steps(purge(keeper, cluster))
    assert cluster.log(changelog).start == 0, "who reads at a cut of a moment ago sees them yet"
    keeper.clock.advance(30_000)
    run_steps(purge(keeper, cluster))
    start = cluster.log(changelog).start
    assert 0 < start < 4
    live = [window.start_ms // 60_000 for window, _ in store.all()]
    assert start <= min(live)


def test_the_task_id_decides_which_partition_is_purged(
    purging: tuple[Keeper, FakeCluster],
) -> None:
    keeper, cluster = purging
    assert keeper.owned.task_id == TaskId(1, 0)
    keeper.clock.advance(30_000)
    (step,) = list(purge(keeper, cluster))
    assert step.arguments == ({REPARTITION: 3},)
