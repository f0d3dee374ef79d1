"""Which internal records are deleted between commits, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.clients import Steps, run_steps
from logstate.contracts.errors import AbortableError, BrokerError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import ValueAndTimestamp
from logstate.testing import FakeCluster, Fault
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.unit.logstate.commit.keeper import Keeper
from tests.unit.logstate.plans import by_word, plan_of
from tests.unit.logstate.worker.worker_rig import cluster_of

REPARTITION = TopicPartition("app-by-word-repartition", 0)


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


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


def test_what_a_task_needs_after_it_started_again_is_not_deleted() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        windows = TumblingWindows(size=timedelta(minutes=1))
        grouped.windowed_by(windows).count(store="per-minute")

    changelog = TopicPartition("app-per-minute-changelog", 0)
    cluster = cluster_of({"in": 1})
    cluster.create_topic(changelog.topic, 1, {"cleanup.policy": "compact,delete"})
    for _ in range(3):
        cluster.produce(changelog.topic, b"k", b"v", timestamp=1)
    keeper = Keeper(declare)
    state = keeper.state
    for first_needed in (3, 0):
        changes = replace(state.freeze(), first_needed={"per-minute": first_needed})
        state.committed(changes, {"per-minute": 3})
        keeper.clock.advance(30_000)
        run_steps(purge(keeper, cluster))
    assert cluster.log(changelog).start == 0


def test_the_task_id_decides_which_partition_is_purged(
    purging: tuple[Keeper, FakeCluster],
) -> None:
    keeper, cluster = purging
    assert keeper.owned.task_id == TaskId(1, 0)
    keeper.clock.advance(30_000)
    (step,) = list(purge(keeper, cluster))
    assert step.arguments == ({REPARTITION: 3},)
