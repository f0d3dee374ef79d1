"""Logs of the fake cluster: what brokers do to them over time."""

from __future__ import annotations

import pytest

from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import BrokerError, ProductionError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.testing import FakeCluster
from logstate.testing.fake.partition_log import PartitionLog

LOG = TopicPartition("log", 0)
DAY_MS = 86_400_000


def a_cluster(**config: str) -> FakeCluster:
    cluster = FakeCluster(clock=ManualClock(10 * DAY_MS))
    cluster.create_topic("log", 1, {key.replace("_", "."): value for key, value in config.items()})
    return cluster


def write(cluster: FakeCluster, *rows: tuple[bytes, bytes | None]) -> None:
    for key, value in rows:
        cluster.produce("log", key, value, timestamp=5)


def offsets(cluster: FakeCluster) -> list[int]:
    return [r.offset() for r in cluster.records("log")]


def test_compaction_keeps_the_last_record_of_each_key() -> None:
    cluster = a_cluster(cleanup_policy="compact")
    write(cluster, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"))
    cluster.clean("log")
    assert offsets(cluster) == [1, 2, 3]


def test_tombstones_stay_for_their_lifetime_and_then_go() -> None:
    cluster = a_cluster(cleanup_policy="compact", delete_retention_ms="1000")
    write(cluster, (b"a", b"1"), (b"a", None), (b"b", b"1"))
    cluster.clean("log")
    assert offsets(cluster) == [1, 2]
    assert isinstance(cluster.clock, ManualClock)
    cluster.clock.advance(1_001)
    cluster.clean("log")
    assert offsets(cluster) == [2]


def test_the_last_offset_stays_occupied_when_its_record_goes() -> None:
    cluster = a_cluster(cleanup_policy="compact", delete_retention_ms="0")
    write(cluster, (b"a", b"1"), (b"a", None))
    assert isinstance(cluster.clock, ManualClock)
    cluster.clock.advance(1)
    cluster.clean("log")
    assert offsets(cluster) == []
    consumer = cluster.log_consumer()
    consumer.assign({LOG: 0})
    assert consumer.poll(10, 0.0).ends == [(LOG, 2)]
    assert consumer.position(LOG) == 2


def test_compaction_stops_at_an_open_transaction() -> None:
    cluster = a_cluster(cleanup_policy="compact")
    write(cluster, (b"a", b"1"))
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("log", 0, b"a", b"2", 5)])
    cluster.clean("log")
    producer.abort()
    assert offsets(cluster) == [0]


def test_compaction_leaves_alone_what_came_after_a_record_that_is_younger_than_the_lag() -> None:
    cluster = a_cluster(cleanup_policy="compact", min_compaction_lag_ms="10")
    now_ms = cluster.clock.wall_clock_ms()
    for timestamp in (5, 5, now_ms - 9, 5, 5):
        cluster.produce("log", b"k", b"v", timestamp=timestamp)
    cluster.clean("log")
    assert offsets(cluster) == [1, 2, 3, 4]


@pytest.mark.parametrize(("segment_ms", "kept"), [(604_800_000, [2]), (2**63 - 1, [0, 1, 2])])
def test_the_time_of_a_marker_counts_for_old_records_in_its_segment(
    segment_ms: int, kept: list[int]
) -> None:
    cluster = a_cluster(
        cleanup_policy="compact", min_compaction_lag_ms="10", segment_ms=str(segment_ms)
    )
    write(cluster, (b"k", b"1"), (b"k", b"2"))
    producer = cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("log", 0, b"k", b"3", 5)])
    producer.commit()
    cluster.clean("log")
    assert offsets(cluster) == kept


def test_retention_compares_event_time_with_the_brokers_clock() -> None:
    cluster = a_cluster(retention_ms=str(DAY_MS))
    for timestamp in (5, 9 * DAY_MS, 10 * DAY_MS):
        cluster.produce("log", b"k", b"v", timestamp=timestamp)
    cluster.clean("log")
    assert offsets(cluster) == [1, 2]
    assert cluster.log(LOG).start == 1


def test_a_truncated_log_ends_earlier() -> None:
    log = PartitionLog("log", 0)
    for _ in range(5):
        log.append(b"k", b"v", 5, None, 0)
    log.truncate(3)
    assert (log.end, len(log.read(0, 10)[0]), len(log.history)) == (3, 3, 5)


def test_a_topic_that_was_made_again_is_another_topic() -> None:
    cluster = a_cluster()
    write(cluster, (b"a", b"1"))
    admin = cluster.admin()
    before = admin.describe_topics(["log"])["log"].topic_id
    cluster.recreate_topic("log")
    assert admin.describe_topics(["log"])["log"].topic_id != before
    assert cluster.log(LOG).end == 0


def test_a_broker_can_stamp_records_itself() -> None:
    cluster = a_cluster(message_timestamp_type="LogAppendTime")
    write(cluster, (b"a", b"1"))
    assert cluster.records("log")[0].timestamp()[1] == 10 * DAY_MS


def test_unknown_topics_are_named() -> None:
    cluster = a_cluster()
    with pytest.raises(ProductionError, match="does not exist"):
        cluster.plain_producer().produce([ProducedRecord("nope", 0, None, b"v", 5)])
    with pytest.raises(TopicError, match="there are"):
        cluster.admin().end_offsets([TopicPartition("nope", 0)])


def test_a_producer_is_used_in_order() -> None:
    producer = a_cluster().transactional_producer("tx")
    with pytest.raises(BrokerError, match="init_transactions"):
        producer.begin()
    producer.init_transactions()
    with pytest.raises(BrokerError, match="outside"):
        producer.produce([ProducedRecord("log", 0, None, b"v", 5)])
    with pytest.raises(BrokerError, match="no transaction"):
        producer.commit()


def test_a_fetch_may_bring_less_than_was_asked_for() -> None:
    cluster = FakeCluster({"log": 1}, clock=ManualClock(0), fetch_records_max=2)
    for _ in range(3):
        cluster.produce("log", b"k", b"v", timestamp=5)
    consumer = cluster.log_consumer()
    consumer.assign({LOG: 0})
    assert [len(consumer.poll(10, 0.0).records.get(LOG, ())) for _ in range(3)] == [2, 1, 0]
