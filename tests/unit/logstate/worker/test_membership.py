"""A consumer that is thrown out of the group for good is replaced by another."""

from __future__ import annotations

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import (
    BrokerError,
    ForeignGroupError,
    LostMemberError,
    RetriableError,
)
from logstate.testing import FakeCluster, Fault
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of()


def thrown_out(cluster: FakeCluster) -> None:
    cluster.faults.add(Fault("poll", LostMemberError("the id is still taken")))


def test_another_consumer_joins_and_goes_on_where_the_first_one_stopped(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, counted).start().until_running("0_0", "0_1")
    send(cluster, *"abc")
    rig.commit()
    send(cluster, *"abc")
    first = rig.worker._live.consumer._current
    thrown_out(cluster)
    rig.turn()
    assert rig.worker._live.consumer._current is not first
    rig.until_running("0_0", "0_1")
    rig.commit()
    assert sorted(outputs(cluster)) == sorted([(k, n) for k in "abc" for n in "12"])
    assert len(cluster.group("app").members) == 1


def test_what_was_not_committed_is_processed_again_by_the_new_member(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start().until_running("0_0", "0_1")
    send(cluster, *"abc")
    rig.turn()
    thrown_out(cluster)
    rig.turn()
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []
    rig.until_running("0_0", "0_1")
    rig.commit()
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "1"), ("b", "1"), ("c", "1")]


def test_an_unusable_client_that_cannot_even_be_closed_is_replaced(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start().until_running("0_0", "0_1")
    thrown_out(cluster)

    def unusable(step: Step) -> None:
        if step.name == "close_consumer":
            raise BrokerError("unusable")

    rig.before = unusable
    rig.turn()
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    rig.until_running("0_0", "0_1")


def test_being_thrown_out_again_and_again_stops_the_worker(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted, rejoins_max=3).start().until_running("0_0", "0_1")

    def again_and_again() -> None:
        for _ in range(10):
            thrown_out(cluster)
            rig.turn()

    with pytest.raises(BrokerError, match=r"4 memberships failed .* the id is still taken"):
        again_and_again()
    assert rig.is_finished


def test_it_is_not_counted_among_failed_transactions(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted, aborts_max=2).start().until_running("0_0", "0_1")
    for _ in range(6):
        thrown_out(cluster)
        rig.turn()
    rig.until_running("0_0", "0_1")


def test_losing_partitions_often_is_no_reason_to_stop(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted, aborts_max=2).start().until_running("0_0", "0_1")
    for _ in range(6):
        cluster.group("app").leave(next(iter(cluster.group("app").members)))
        rig.turn(3)
        rig.until_running("0_0", "0_1")
    send(cluster, "a")
    rig.commit()
    assert outputs(cluster) == [("a", "1")]


# --- no producer ----------------------------------------------------------------------------------


def test_brokers_that_are_away_for_long_are_waited_for(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted, aborts_max=2).start().until_running("0_0", "0_1")
    send(cluster, *"abc")
    cluster.faults.add(Fault("flush", RetriableError("away")))
    for _ in range(8):
        cluster.faults.add(Fault("init_transactions", RetriableError("still away")))
    rig.commit()
    for _ in range(7):
        assert outputs(cluster) == []
        rig.turn()
    rig.until_running("0_0", "0_1")
    rig.commit()
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "1"), ("b", "1"), ("c", "1")]
    assert rig.total("transactions_aborted_total") == 1


def foreign(cluster: FakeCluster) -> None:
    cluster.faults.add(Fault("poll", ForeignGroupError("the group id does not exist")))


def test_members_of_the_jvm_library_are_waited_for_and_told_of_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    rig = WorkerRig(cluster, counted, rejoins_max=3).start()
    for _ in range(10):
        foreign(cluster)
        rig.turn()
        rig.clock.advance(2_000)
    rig.until_running("0_0", "0_1")
    (said,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "group 'app' has members that use another protocol: the group id does not exist" in said
    assert "session timeout" in said
    assert rig.steps.count("wait_for_group") == 10


def test_members_of_another_kind_that_do_not_go_end_the_worker_with_what_to_do(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, counted).start()

    def again_and_again() -> None:
        for _ in range(61):
            foreign(cluster)
            rig.turn()
            rig.clock.advance(2_000)

    with pytest.raises(BrokerError, match=r"after 120 s: .*stop all its instances.*'classic'"):
        again_and_again()
    assert rig.is_finished


def test_a_member_that_works_and_is_thrown_out_by_a_deleted_group_replays(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, counted).start().until_running("0_0", "0_1")
    send(cluster, *"abc")
    rig.turn()
    foreign(cluster)
    rig.until_running("0_0", "0_1")
    rig.commit()
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "1"), ("b", "1"), ("c", "1")]
