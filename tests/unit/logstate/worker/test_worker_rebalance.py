"""Partitions come and go: what is revoked is committed first, what is lost is discarded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from logstate.contracts.clients import Polled, Rebalance, Step
from logstate.contracts.errors import AbortableError, BrokerError, RetriableError
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from logstate.testing.fake.consumers import FakeGroupConsumer
from tests.unit.logstate.flows import counted, recounted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.fixture(params=["consumer", "classic"])
def cluster(request: pytest.FixtureRequest) -> FakeCluster:
    return cluster_of({"in": 2, "out": 1}, group_protocol=request.param)


def together(*rigs: WorkerRig, until: Callable[[], object]) -> None:
    """Turns of several workers, one after the other."""
    for _ in range(100):
        if until():
            return
        for rig in rigs:
            rig.turn()
    raise AssertionError(f"it did not become true: {[rig.stages for rig in rigs]}")


def share(*rigs: WorkerRig, tasks: int = 2) -> None:
    """Turns until every task runs somewhere and every worker has one."""

    def is_shared() -> bool:
        stages = [rig.stages for rig in rigs]
        running = [stage for found in stages for stage in found.values()]
        return (
            all(stages)
            and len(running) == tasks
            and all(stage is Stage.RUNNING for stage in running)
        )

    together(*rigs, until=is_shared)


def counts(cluster: FakeCluster) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = {}
    for key, value in outputs(cluster):
        found.setdefault(key, []).append(int(value or 0))
    return found


def expected(keys: str) -> dict[str, list[int]]:
    return {key: list(range(1, n + 1)) for key, n in Counter(keys).items()}


# --- sharing --------------------------------------------------------------------------------------


def test_two_workers_share_the_partitions_and_count_every_record_once(
    cluster: FakeCluster,
) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    two = WorkerRig(cluster, counted, name="two").start()
    share(one, two)
    assert sorted([*one.stages, *two.stages]) == ["0_0", "0_1"]
    send(cluster, *"abcdabcda")
    for rig in (one, two):
        rig.commit()
    assert counts(cluster) == expected("abcdabcda")


def test_a_worker_that_comes_takes_over_where_the_other_stopped(cluster: FakeCluster) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.commit()
    two = WorkerRig(cluster, counted, name="two").start()
    share(one, two)
    (moved,) = two.tasks.values()
    assert moved.restored_records > 0
    send(cluster, *"abcd")
    for rig in (one, two):
        rig.commit()
    assert counts(cluster) == expected("abcdabcdaabcd")


def test_a_worker_that_leaves_gives_its_partitions_back(cluster: FakeCluster) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    two = WorkerRig(cluster, counted, name="two").start()
    share(one, two)
    send(cluster, *"abcdabcda")
    two.turn()
    two.stop()
    one.until_running("0_0", "0_1")
    one.commit()
    assert counts(cluster) == expected("abcdabcda")


def test_partitions_of_one_task_may_come_one_by_one() -> None:
    cluster = cluster_of({"in": 3, "out": 1}, splits_assignments=True, seed=3)
    one = WorkerRig(cluster, recounted, name="one").start()
    two = WorkerRig(cluster, recounted, name="two").start()
    share(one, two, tasks=6)
    send(cluster, *"abcdabcda")
    for _ in range(3):
        one.commit()
        two.commit()
    assert counts(cluster) == expected("abcdabcda")


# --- revoked --------------------------------------------------------------------------------------


def test_what_is_revoked_is_committed_first(cluster: FakeCluster) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    assert outputs(cluster) == []
    two = WorkerRig(cluster, counted, name="two").start()
    two.turn()
    one.turn()
    assert counts(cluster) == expected("abcdabcda")
    assert one.total("transactions_aborted_total") == 0


def test_revoked_rows_are_written_to_the_disk_for_their_return(cluster: FakeCluster) -> None:
    disk = Disk()
    one = WorkerRig(cluster, counted, name="one", disk=disk).start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.commit()
    two = WorkerRig(cluster, counted, name="two").start()
    share(one, two)
    two.stop()
    one.until_running("0_0", "0_1")
    assert sum(owned.restored_records for owned in one.tasks.values()) == 0


def test_a_commit_that_fails_while_partitions_are_revoked_is_replayed(
    cluster: FakeCluster,
) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    guest = cluster.group_consumer(group_id="app", instance_id=None)
    guest.subscribe(["in"], lambda _: None)
    guest.poll(1, 0)
    cluster.faults.add(Fault("commit", AbortableError("no")))
    one.turn()
    assert one.total("transactions_aborted_total") == 1
    assert outputs(cluster) == []
    guest.close()
    one.until_running("0_0", "0_1")
    one.commit()
    assert counts(cluster) == expected("abcdabcda")


def test_partitions_are_given_up_although_the_recovery_on_the_way_fails_too(
    cluster: FakeCluster,
) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    two = WorkerRig(cluster, counted, name="two").start()
    two.turn()
    cluster.faults.add(Fault("commit", AbortableError("no")))
    cluster.faults.add(Fault("init_transactions", RetriableError("no answer")))
    one.turn()
    share(one, two)
    for rig in (one, two):
        rig.commit()
    assert counts(cluster) == expected("abcdabcda")


def test_a_task_whose_partition_was_revoked_in_the_middle_of_a_restore_is_dropped(
    cluster: FakeCluster,
) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.commit()
    one.stop()
    two = WorkerRig(cluster, counted, name="two").start()
    two.until(lambda: two.stages)
    three = WorkerRig(cluster, counted, name="three").start()
    share(two, three)
    send(cluster, *"abcd")
    two.commit()
    three.commit()
    assert counts(cluster) == expected("abcdabcdaabcd")


# --- lost -----------------------------------------------------------------------------------------


def test_what_is_lost_is_discarded_not_committed(cluster: FakeCluster) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    group = cluster.group("app")
    group.leave(next(iter(group.members)))  # thrown out: others may own the partitions already
    one.turn()
    assert one.stages == {}
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []
    assert one.total("partitions_lost_total") == 2
    assert one.total("transactions_aborted_total") == 1
    one.until_running("0_0", "0_1")
    one.commit()
    assert counts(cluster) == expected("abcdabcda")


def test_rows_of_lost_tasks_are_not_written_to_the_disk(cluster: FakeCluster) -> None:
    disk = Disk()
    one = WorkerRig(cluster, counted, name="one", disk=disk).start()
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.commit()
    group = cluster.group("app")
    group.leave(next(iter(group.members)))
    one.turn()
    assert [row for rows in disk.values() for row in rows.scan(b"\x01", b"\x02")] == []


def test_a_zombie_commits_nothing_that_its_successor_does_again() -> None:
    cluster = cluster_of({"in": 2, "out": 1}, session_timeout_ms=1_000)
    zombie = WorkerRig(cluster, counted, name="zombie").start()
    zombie.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    zombie.turn()
    cluster.clock.advance(1_001)  # type: ignore[attr-defined]
    cluster.tick()
    heir = WorkerRig(cluster, counted, name="heir").start()
    together(heir, until=lambda: len(heir.stages) == 2)
    cluster.clock.advance(10_001)  # type: ignore[attr-defined]
    cluster.tick()  # the zombie's transaction times out
    heir.until_running("0_0", "0_1")
    heir.commit()
    share(zombie, heir)
    zombie.commit()
    heir.commit()
    assert counts(cluster) == expected("abcdabcda")


# --- real clients answer inside poll --------------------------------------------------------------


class CallbackConsumer(FakeGroupConsumer):
    """Calls back inside poll, as a real client does."""

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        super().subscribe(topics, on_rebalance)
        self._on_rebalance = on_rebalance

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        polled = super().poll(max_records, timeout_s)
        rebalances, polled.rebalances = polled.rebalances, []
        for rebalance in rebalances:
            self._on_rebalance(rebalance)
        return polled


def calling_back(cluster: FakeCluster, name: str) -> WorkerRig:
    rig = WorkerRig(cluster, counted, name=name)
    rig.process.group_consumer = (  # type: ignore[method-assign]
        lambda *, group_id, instance_id: CallbackConsumer(
            cluster, rig.process, group_id, instance_id
        )
    )
    return rig.start()


def test_a_client_that_calls_back_inside_its_poll_gets_the_same_results(
    cluster: FakeCluster,
) -> None:
    one = calling_back(cluster, "one")
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    two = calling_back(cluster, "two")
    share(one, two)
    send(cluster, *"abcd")
    one.commit()
    two.commit()
    assert counts(cluster) == expected("abcdabcdaabcd")


def test_an_error_inside_the_callback_surfaces_at_the_end_of_the_poll() -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    one = calling_back(cluster, "one")
    one.until_running("0_0", "0_1")
    send(cluster, *"abcdabcda")
    one.turn()
    cluster.faults.add(Fault("commit", BrokerError("not authorised")))
    two = cluster.group_consumer(group_id="app", instance_id=None)
    two.subscribe(["in"], lambda _: None)
    two.poll(1, 0)
    with pytest.raises(BrokerError, match="not authorised"):
        one.turn(3)
    assert one.is_finished
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []


def test_every_assignment_is_a_new_epoch(cluster: FakeCluster) -> None:
    one = WorkerRig(cluster, counted, name="one").start()
    one.until_running("0_0", "0_1")
    before = one.tasks["0_0"].epoch
    two = WorkerRig(cluster, counted, name="two").start()
    share(one, two)
    two.stop()
    one.until_running("0_0", "0_1")
    epochs = {owned.task_id: owned.epoch for owned in one.tasks.values()}
    assert max(epochs.values()) > before
    assert set(epochs) == {TaskId(0, 0), TaskId(0, 1)}


def test_who_ends_leaves_the_group_before_it_closes_its_stores() -> None:
    """The heirs wait for the group; closing takes a while, and nobody reads what is closed."""
    rig = WorkerRig(cluster_of(), counted).start().until_running()
    left: list[tuple[int, list[str]]] = []

    def check(step: Step) -> None:
        if step.name == "close_consumer":
            left.append((len(rig.worker._tasks), list(rig.stages)))

    rig.before = check
    rig.stop()
    assert left == [(2, [])]
    assert not len(rig.worker._tasks)


def test_who_fails_ends_its_transaction_before_it_leaves_the_group() -> None:
    cluster = cluster_of()
    rig = WorkerRig(cluster, counted).start().until_running()
    send(cluster, "x")
    rig.turn()

    def fail(step: Step) -> None:
        if step.name == "poll":
            raise BrokerError("no more of this")

    rig.before = fail
    with pytest.raises(BrokerError, match="no more of this"):
        rig.turn()
    ends = [name for name in rig.steps if name in ("abort", "close_consumer")]
    assert ends == ["abort", "close_consumer"]
    assert outputs(cluster) == []


def test_a_restore_that_goes_to_another_member_leaves_no_log_behind(cluster: FakeCluster) -> None:
    """The client would go on fetching it, while all tasks that are left run."""
    WorkerRig(cluster, counted).start().until_running().stop()
    producer = cluster.transactional_producer("stranger")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("app-counts-changelog", 1, b"k", None, 5)])
    producer.flush()
    first = WorkerRig(cluster, counted, name="one").start()
    first.until(lambda: first.stages == {"0_0": Stage.RUNNING, "0_1": Stage.RESTORING})
    heir = WorkerRig(cluster, counted, name="two").start()
    together(first, heir, until=lambda: "0_1" in heir.stages and first.stages)
    first.until_running("0_0").turn(2)
    assert "restore_rest" in first.steps[first.steps.index("subscribe") :]
    assert not first.worker._restorer.must_wait
