"""What the fake cluster adds to Kafka: its background moves only when it is told to."""

from __future__ import annotations

import pytest

from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import AbortableError, FencedError, RetriableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.testing import FakeCluster, Fault, ProcessKilled

LOG = TopicPartition("log", 0)
INPUT = TopicPartition("input", 0)


def a_cluster(**options: object) -> FakeCluster:
    return FakeCluster({"log": 1, "input": 2}, clock=ManualClock(1_000_000), **options)  # type: ignore[arg-type]


def record(value: bytes) -> ProducedRecord:
    return ProducedRecord("log", 0, None, value, 5)


def values(cluster: FakeCluster) -> list[bytes | None]:
    return [r.value() for r in cluster.records("log")]


def test_a_marker_arrives_when_it_is_told_to() -> None:
    cluster = a_cluster(delays_markers=True)
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([record(b"a")])
    producer.commit()
    log = cluster.log(LOG)
    assert (log.lso, log.end) == (0, 1)
    cluster.deliver_marker()
    assert (log.lso, log.end) == (2, 2)


def test_offsets_stay_unstable_until_their_marker_arrives() -> None:
    cluster = a_cluster(delays_markers=True)
    member = cluster.group_consumer(group_id="g", instance_id=None)
    member.subscribe(["input"], lambda _: None)
    member.poll(10, 0.0)
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.send_offsets({INPUT: (3, "")}, member.group_metadata())
    producer.commit()
    with pytest.raises(RetriableError, match="not stable"):
        member.committed([INPUT], 0.0)
    cluster.deliver_marker()
    assert member.committed([INPUT], 0.0)[INPUT].offset == 3


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    cluster = a_cluster(delays_markers=True)
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    for value in (b"a", b"b"):
        producer.begin()
        producer.produce([record(value)])
        producer.commit()
    assert cluster.log(LOG).lso == 2, "the first transaction's marker came before the second began"


def test_a_repeated_commit_ends_the_next_transaction_of_the_same_epoch() -> None:
    cluster = a_cluster()
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([record(b"a")])
    cluster.faults.add(Fault("commit", is_repeated=True))
    producer.commit()
    assert producer.must_be_replaced()
    producer.begin()
    producer.produce([record(b"half of the next")])
    cluster.deliver_late_end()
    assert values(cluster) == [b"a", b"half of the next"]


def test_a_new_epoch_refuses_a_repeated_commit() -> None:
    cluster = a_cluster()
    old = cluster.transactional_producer("tx")
    old.init_transactions()
    old.begin()
    cluster.faults.add(Fault("commit", is_repeated=True))
    old.commit()
    new = cluster.transactional_producer("tx")
    new.init_transactions()
    new.begin()
    new.produce([record(b"open")])
    cluster.deliver_late_end()
    assert values(cluster) == []


def test_an_old_transaction_is_aborted_and_its_producer_fenced() -> None:
    clock = ManualClock(1_000_000)
    cluster = FakeCluster({"log": 1}, clock=clock, transaction_timeout_ms=500)
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([record(b"a")])
    clock.advance(501)
    cluster.tick()
    with pytest.raises(FencedError, match="timed out"):
        producer.commit()
    assert values(cluster) == []


def test_a_fault_that_was_carried_out_loses_only_the_answer() -> None:
    cluster = a_cluster()
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([record(b"a")])
    cluster.faults.add(Fault("commit", AbortableError("no answer"), is_carried_out=True))
    with pytest.raises(AbortableError, match="no answer"):
        producer.commit()
    assert values(cluster) == [b"a"]


def test_a_fault_that_was_not_carried_out_changes_nothing() -> None:
    cluster = a_cluster()
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([record(b"a")])
    cluster.faults.add(Fault("commit", RetriableError("no answer")))
    with pytest.raises(RetriableError):
        producer.commit()
    assert values(cluster) == []
    producer.commit()
    assert values(cluster) == [b"a"]


def test_records_held_back_arrive_even_after_their_process_was_killed() -> None:
    cluster = a_cluster(buffers_sends=True)
    process = cluster.process("p")
    producer = process.plain_producer()
    producer.produce([record(b"a"), record(b"b")])
    process.kill()
    assert values(cluster) == []
    cluster.arrive(producer, 1)
    assert values(cluster) == [b"a"]
    with pytest.raises(ProcessKilled):
        producer.flush()


def test_records_of_a_fenced_producer_never_arrive() -> None:
    cluster = a_cluster(buffers_sends=True)
    old = cluster.transactional_producer("tx")
    old.init_transactions()
    old.begin()
    old.produce([record(b"late")])
    cluster.transactional_producer("tx").init_transactions()
    cluster.arrive(old, 10)
    assert cluster.log(LOG).end == 0
    with pytest.raises(FencedError):
        old.flush()
