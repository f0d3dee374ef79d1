"""One transactional producer: opened lazily, replaced after anything but a quick, clean end."""

from __future__ import annotations

import logging

import pytest

from logstate.commit.transaction import Transactions
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    ProductionError,
    RetriableError,
)
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.testing import FakeCluster, Fault
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.worker.worker_rig import cluster_of

OUT = TopicPartition("out", 0)
NEW_PRODUCER = ["close_producer", "new_producer", "init_transactions"]


def record(value: bytes) -> ProducedRecord:
    return ProducedRecord("out", 0, None, value, 1)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"out": 1})


@pytest.fixture
def recorder() -> StepRecorder:
    return StepRecorder()


@pytest.fixture
def transactions(cluster: FakeCluster, recorder: StepRecorder) -> Transactions:
    made = Transactions(cluster, "tx")
    recorder.run(made.initialise())
    recorder.take()
    return made


def values(cluster: FakeCluster) -> list[bytes | None]:
    return [found.value() for found in cluster.records("out")]


def end(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster, offset: int = 1
) -> None:
    """Commit with an input offset, as a member of a group."""
    consumer = cluster.group_consumer(group_id="app", instance_id=None)
    consumer.subscribe(["out"], lambda _: None)
    consumer.poll(10, 0)
    offsets = {OUT: (offset, "")}
    recorder.run(transactions.commit(offsets, consumer.group_metadata()))


# --- opening --------------------------------------------------------------------------------------


def test_a_new_producer_fences_whatever_had_the_id_before(
    cluster: FakeCluster, recorder: StepRecorder
) -> None:
    zombie = Transactions(cluster, "tx")
    recorder.run(zombie.initialise())
    recorder.run(zombie.produce([record(b"zombie")]))
    successor = Transactions(cluster, "tx")
    recorder.take()
    recorder.run(successor.initialise())
    assert recorder.take() == ["new_producer", "init_transactions"]
    with pytest.raises(FencedError):
        recorder.run(zombie.produce([record(b"late")]))
    assert values(cluster) == []


def test_a_transaction_is_opened_by_its_first_record_and_not_before(
    transactions: Transactions, recorder: StepRecorder
) -> None:
    recorder.run(transactions.produce([]))
    assert recorder.take() == []
    assert not transactions.is_open
    recorder.run(transactions.produce([record(b"a")]))
    recorder.run(transactions.produce([record(b"b")]))
    recorder.run(transactions.begin())
    assert recorder.take() == ["begin", "produce", "produce"]
    assert transactions.is_open


def test_a_begin_that_failed_leaves_nothing_open(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    cluster.faults.add(Fault("begin", AbortableError("no")))
    with pytest.raises(AbortableError):
        recorder.run(transactions.begin())
    assert not transactions.is_open


def test_a_flush_tells_where_the_records_went(
    transactions: Transactions, recorder: StepRecorder
) -> None:
    recorder.run(transactions.produce([record(b"a"), record(b"b")]))
    assert recorder.run(transactions.flush()) == {OUT: 2}


# --- a clean end ----------------------------------------------------------------------------------


def test_a_commit_makes_records_and_offsets_visible_and_keeps_the_producer(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.produce([record(b"a")]))
    recorder.take()
    end(transactions, recorder, cluster, offset=7)
    assert recorder.take() == ["send_offsets", "commit"]
    assert values(cluster) == [b"a"]
    assert cluster.committed_offset("app", "out") == 7
    assert not transactions.is_open


def test_records_of_no_task_are_committed_alone(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert recorder.take() == ["begin", "produce", "commit"]
    assert values(cluster) == [b"manifest"]
    assert not transactions.is_open


# --- anything else --------------------------------------------------------------------------------


def test_a_producer_whose_commit_was_slow_is_replaced_before_anything_else(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    """Its request may have been sent twice: the late one would end the NEXT transaction."""
    cluster.faults.add(Fault("commit", is_repeated=True))
    recorder.run(transactions.produce([record(b"first")]))
    recorder.take()
    end(transactions, recorder, cluster)
    assert recorder.take() == ["send_offsets", "commit", *NEW_PRODUCER]

    recorder.run(transactions.produce([record(b"second")]))
    cluster.deliver_late_end()
    recorder.run(transactions.abandon())
    assert values(cluster) == [b"first"], "the late commit must not reach the second transaction"


def test_abandoning_aborts_and_replaces_the_producer(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.produce([record(b"lost")]))
    recorder.take()
    recorder.run(transactions.abandon())
    assert recorder.take() == ["abort", *NEW_PRODUCER]
    assert not transactions.is_open
    recorder.run(transactions.commit_alone([record(b"next")]))
    assert values(cluster) == [b"next"]
    assert cluster.transactions.open_transactions() == []


def test_abandoning_without_a_transaction_still_replaces_the_producer(
    transactions: Transactions, recorder: StepRecorder
) -> None:
    """What failed may have been a commit that succeeded: its producer is not used again."""
    recorder.run(transactions.abandon())
    assert recorder.take() == NEW_PRODUCER


@pytest.mark.parametrize(
    "error", [FencedError("late"), AbortableError("no"), RetriableError("slow")], ids=repr
)
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_abort_that_fails_is_left_to_the_new_producer(
    transactions: Transactions,
    recorder: StepRecorder,
    cluster: FakeCluster,
    error: LogstateError,
    is_carried_out: bool,
) -> None:
    cluster.faults.add(Fault("abort", error, is_carried_out=is_carried_out))
    recorder.run(transactions.produce([record(b"lost")]))
    recorder.run(transactions.abandon())
    assert recorder.take()[-4:] == ["abort", *NEW_PRODUCER]
    assert cluster.transactions.open_transactions() == []
    assert values(cluster) == []


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_after_an_ambiguous_commit_the_outcome_is_what_the_log_says(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster, is_carried_out: bool
) -> None:
    cluster.faults.add(Fault("commit", RetriableError("no answer"), is_carried_out=is_carried_out))
    recorder.run(transactions.produce([record(b"a")]))
    with pytest.raises(RetriableError):
        end(transactions, recorder, cluster, offset=7)
    recorder.run(transactions.abandon())
    assert cluster.transactions.open_transactions() == []
    assert values(cluster) == ([b"a"] if is_carried_out else [])
    assert cluster.committed_offset("app", "out") == (7 if is_carried_out else None)


def test_a_producer_that_cannot_be_replaced_is_said_and_can_be_tried_again(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.produce([record(b"lost")]))
    cluster.faults.add(Fault("init_transactions", RetriableError("no coordinator")))
    with pytest.raises(RetriableError):
        recorder.run(transactions.abandon())
    recorder.run(transactions.abandon())
    recorder.run(transactions.commit_alone([record(b"next")]))
    assert values(cluster) == [b"next"]


# --- records that belong to no task ---------------------------------------------------------------


@pytest.mark.parametrize("step", ["begin", "produce", "commit"])
def test_the_manifest_is_written_again_after_a_failure(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster, step: str
) -> None:
    cluster.faults.add(Fault(step, AbortableError("no")))
    recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert values(cluster) == [b"manifest"]


def test_a_manifest_that_never_succeeds_is_given_up(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    for _ in range(20):
        cluster.faults.add(Fault("commit", AbortableError("never")))
    with pytest.raises(AbortableError, match="never"):
        recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert recorder.names.count("commit") == 20
    assert values(cluster) == []


def test_what_no_retry_mends_is_not_tried_again(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    cluster.faults.add(Fault("produce", ProductionError("too large")))
    with pytest.raises(ProductionError):
        recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert recorder.names.count("produce") == 1


# --- the end --------------------------------------------------------------------------------------


def test_closing_aborts_what_is_open(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.produce([record(b"lost")]))
    recorder.take()
    recorder.run(transactions.close())
    assert recorder.take() == ["abort", "close_producer"]
    assert cluster.transactions.open_transactions() == []
    assert values(cluster) == []


def test_closing_an_idle_producer_aborts_nothing_and_twice_is_once(
    transactions: Transactions, recorder: StepRecorder
) -> None:
    recorder.run(transactions.close())
    recorder.run(transactions.close())
    assert recorder.take() == ["close_producer"]


def test_closing_before_the_start_does_nothing(
    cluster: FakeCluster, recorder: StepRecorder
) -> None:
    recorder.run(Transactions(cluster, "tx").close())
    assert recorder.take() == []


def test_an_unreachable_broker_does_not_keep_a_worker_from_closing(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    recorder.run(transactions.produce([record(b"lost")]))
    cluster.faults.add(Fault("abort", BrokerError("unreachable")))
    recorder.take()
    recorder.run(transactions.close())
    assert recorder.take() == ["abort", "close_producer"]
    assert not transactions.is_open


def test_who_is_fenced_again_and_again_by_a_living_rival_stops(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    """Each would fence the other for ever."""
    for _ in range(5):
        cluster.faults.add(Fault("commit", FencedError("a newer producer")))
    with pytest.raises(FencedError, match="another process uses the transactional id"):
        recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert values(cluster) == []


@pytest.mark.parametrize("stalls", [1, 4])
def test_a_few_fences_may_be_stalls_and_are_survived(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster, stalls: int
) -> None:
    for _ in range(stalls):
        cluster.faults.add(Fault("commit", FencedError("timed out")))
    recorder.run(transactions.commit_alone([record(b"manifest")]))
    assert values(cluster) == [b"manifest"]


def test_a_producer_that_is_missing_is_made_when_the_brokers_answer_again(
    transactions: Transactions, recorder: StepRecorder, cluster: FakeCluster
) -> None:
    for _ in range(2):
        cluster.faults.add(Fault("init_transactions", RetriableError("away")))
    with pytest.raises(RetriableError):
        recorder.run(transactions.abandon())
    assert recorder.run(transactions.is_ready()) is False
    assert recorder.run(transactions.is_ready()) is True


def test_that_there_is_no_producer_is_logged_once_until_there_is_one(
    transactions: Transactions,
    recorder: StepRecorder,
    cluster: FakeCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(times: int) -> None:
        for _ in range(times):
            cluster.faults.add(Fault("init_transactions", RetriableError("overloaded")))

    for _ in range(2):
        fail(4)
        with pytest.raises(RetriableError):
            recorder.run(transactions.abandon())
        for _ in range(3):
            assert recorder.run(transactions.is_ready()) is False
        assert recorder.run(transactions.is_ready()) is True
    lines = [one for one in caplog.records if "there is no producer yet" in one.getMessage()]
    assert [one.levelname for one in lines if one.levelno >= logging.WARNING] == ["WARNING"] * 2
