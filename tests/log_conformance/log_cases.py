"""Offsets, times, isolation: what a log is."""

from __future__ import annotations

import random

import pytest

from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import BrokerError, ProductionError
from logstate.contracts.records import ProducedRecord, TopicPartition
from tests.log_conformance.rig import Rig, records


def plain_records_get_consecutive_offsets(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a", b"b", b"c")
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 3)
    assert [r.offset() for r in reader.records] == [0, 1, 2]
    assert rig.end(tp) == 3


def a_read_starts_where_it_is_told(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a", b"b", b"c")
    reader = rig.reader({tp: 2})
    reader.read_to(tp, 3)
    assert reader.values == [b"c"]


def keys_values_and_headers_come_back_as_they_went(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    producer = rig.cluster.plain_producer()
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", b""), ("b", None)]
    producer.produce(
        [
            ProducedRecord(topic, 0, b"k", b"v", 5, headers),
            ProducedRecord(topic, 0, b"", b"", 5),
            ProducedRecord(topic, 0, b"k", None, 5),
        ]
    )
    producer.flush()
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 3)
    first, empty, tombstone = reader.records
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", headers)
    assert (empty.key(), empty.value(), empty.headers()) == (b"", b"", None)
    assert tombstone.value() is None
    producer.close()


def records_without_a_key_or_a_value_and_large_ones_come_back_whole(rig: Rig) -> None:
    topic = rig.topic(config={"max.message.bytes": "2000000"})
    large = random.Random(7).randbytes(900_000)
    parts: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (b"", None),
        (None, b""),
        (b"\x00", b"a\x00b"),
        (b"k", large),
        (b"", b""),
        (None, b"last"),
    ]
    producer = rig.producer()
    producer.begin()
    producer.produce([ProducedRecord(topic, 0, key, value, 5) for key, value in parts])
    producer.flush()
    producer.commit()
    reader = rig.reader({TopicPartition(topic, 0): 0})
    reader.read_to(TopicPartition(topic, 0), len(parts))
    assert [(r.key(), r.value()) for r in reader.records] == parts


def duplicate_and_empty_header_names_keep_their_order(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    headers: list[tuple[str, bytes | None]] = [
        *(("n", str(n).encode()) for n in range(20)),
        ("", b"empty"),
        ("größe", b"\xff"),
        ("n", None),
    ]
    producer = rig.producer()
    producer.begin()
    rows = [
        ProducedRecord(topic, 0, b"k", b"%d" % n, 5, headers if n % 3 else None) for n in range(9)
    ]
    producer.produce(rows)
    producer.flush()
    producer.commit()
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 9)
    assert [(r.value(), r.headers()) for r in reader.records] == [
        (r.value, r.headers) for r in rows
    ]


def a_poll_returns_no_more_records_than_it_may(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    for number in range(2):
        rig.write(TopicPartition(topic, number), *(b"%d" % n for n in range(50)))
    reader = rig.reader({TopicPartition(topic, number): 0 for number in range(2)})
    sizes = []

    def has_all() -> bool:
        sizes.append(sum(map(len, reader.poll(7).records.values())))
        return len(reader.records) == 100

    rig.eventually(has_all)
    assert max(sizes) <= 7
    for number in range(2):
        found = [r for r in reader.records if r.partition() == number]
        assert [r.offset() for r in found] == list(range(50))
        assert {r.topic() for r in found} == {topic}


def positions_that_are_out_of_range_come_between_records(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    good, bad, empty = (TopicPartition(topic, number) for number in range(3))
    rig.write(good, b"a", b"b")
    rig.write(bad, b"a")
    reader = rig.reader({good: 0, bad: 99, empty: 0})

    def has_all() -> bool:
        reader.poll()
        ended = {tp for tp, _ in reader.ends}
        return len(reader.records) == 2 and bool(reader.out_of_range) and {good, empty} <= ended

    rig.eventually(has_all)
    assert (reader.values, reader.out_of_range) == ([b"a", b"b"], {bad: 99})
    rig.write(good, b"c")
    rig.eventually(lambda: reader.poll() and reader.values == [b"a", b"b", b"c"])


def a_partition_that_is_read_again_starts_where_it_is_told(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    first, second = (TopicPartition(topic, number) for number in range(2))
    for tp in (first, second):
        rig.write(tp, b"a", b"b", b"c")
    reader = rig.reader({first: 0, second: 0})
    reader.read_to(first, 3)
    for start in (1, 0, 2, 1, 0):
        reader.records.clear()
        reader.consumer.assign({second: 3})
        reader.consumer.assign({first: start, second: 3})
        reader.read_to(first, 3)
        assert [r.offset() for r in reader.records if r.partition() == 0] == [0, 1, 2][start:]


def time_zero_becomes_the_current_time_and_others_stay(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    producer = rig.cluster.plain_producer()
    producer.produce([ProducedRecord(topic, 0, None, b"v", t) for t in (0, 1, -1, 7)])
    producer.flush()
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 4)
    now, *others = [r.timestamp()[1] for r in reader.records]
    assert now > 1_600_000_000_000
    assert others == [1, -1, 7]
    producer.close()


def keys_go_where_murmur2_says(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    keys = [b"ada", b"bob", b"cy", b"21", b""]
    producer = rig.cluster.plain_producer()
    producer.produce([ProducedRecord(topic, None, key, b"v", 5) for key in keys])
    producer.flush()
    reader = rig.reader({TopicPartition(topic, p): 0 for p in range(3)})
    rig.eventually(lambda: reader.poll() and len(reader.records) == len(keys))
    placed = {r.key(): r.partition() for r in reader.records}
    assert placed == {key: rig.cluster.partition_for(key, 3) for key in keys}
    producer.close()


def a_record_that_is_too_large_is_refused(rig: Rig) -> None:
    topic = rig.topic(config={"max.message.bytes": "2000"})
    producer = rig.cluster.plain_producer()
    with pytest.raises(ProductionError):  # noqa: PT012  a client may refuse early or late
        producer.produce(records(TopicPartition(topic, 0), _incompressible(10_000)))
        producer.flush()
    producer.close()


def the_end_is_reported_once_per_end(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a")
    reader = rig.reader({tp: 0})
    assert reader.read_to_end_notice(tp) == 1
    reader.poll()
    assert reader.ends == [(tp, 1)]
    rig.write(tp, b"b")
    rig.eventually(lambda: reader.poll() and len(reader.ends) == 2)
    assert reader.ends[-1] == (tp, 2)


def the_end_of_an_empty_partition_is_reported(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    assert rig.reader({tp: 0}).read_to_end_notice(tp) == 0


def deleted_records_move_the_start(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a", b"b", b"c")
    rig.admin.delete_records({tp: 2})
    assert rig.admin.start_offsets([tp])[tp] == 2
    assert rig.end(tp) == 3
    reader = rig.reader({tp: 2})
    reader.read_to(tp, 3)
    assert reader.values == [b"c"]


def a_position_before_the_start_is_out_of_range(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a", b"b", b"c")
    rig.admin.delete_records({tp: 2})
    reader = rig.reader({tp: 0})
    rig.eventually(lambda: reader.poll() and reader.out_of_range)
    assert reader.out_of_range == {tp: 0}
    assert reader.values == []


def a_position_beyond_the_end_is_out_of_range(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"a")
    reader = rig.reader({tp: 5})
    rig.eventually(lambda: reader.poll() and reader.out_of_range)
    assert reader.out_of_range == {tp: 5}
    assert reader.values == []


def a_compacted_topic_refuses_to_delete_records(rig: Rig) -> None:
    topic = rig.topic(config={"cleanup.policy": "compact"})
    tp = TopicPartition(topic, 0)
    producer = rig.cluster.plain_producer()
    producer.produce([ProducedRecord(topic, 0, b"k", b"v", 5)])
    producer.flush()
    with pytest.raises(BrokerError):
        rig.admin.delete_records({tp: 1})
    producer.close()


def offsets_are_found_by_time(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    producer = rig.cluster.plain_producer()
    producer.produce([ProducedRecord(topic, 0, None, b"v", t) for t in (10, 20, 30)])
    producer.flush()
    assert [rig.admin.offsets_at([tp], t)[tp] for t in (5, 20, 21, 31)] == [0, 1, 2, 3]
    producer.close()


def absent_topics_are_left_out_of_descriptions(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    found = rig.admin.describe_topics([topic, rig.name("absent")])
    assert list(found) == [topic]
    assert found[topic].partitions == 3
    assert found[topic].topic_id


def creating_a_topic_twice_is_fine(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    before = rig.admin.describe_topics([topic])
    rig.admin.create_topics([NewTopic(topic, 2, 1, {})])
    assert rig.admin.describe_topics([topic]) == before


def whoever_made_a_topic_is_told_so(rig: Rig) -> None:
    there, new = rig.topic(), rig.name("log")
    both = [NewTopic(name, 1, 1, {}) for name in (there, new)]
    assert rig.admin.create_topics(both) == {new}
    assert rig.admin.create_topics(both) == set()
    assert rig.admin.create_topics([]) == set()
    rig.admin.delete_topics([new])
    assert rig.cluster.admin().create_topics(both) == {new}


def configurations_are_what_was_asked_for(rig: Rig) -> None:
    topic = rig.topic(config={"cleanup.policy": "compact", "delete.retention.ms": "77"})
    config = rig.admin.topic_configs([topic])[topic]
    assert (config["cleanup.policy"], config["delete.retention.ms"]) == ("compact", "77")


def _incompressible(size: int) -> bytes:
    return random.Random(1).randbytes(size)


CASES = [
    plain_records_get_consecutive_offsets,
    a_read_starts_where_it_is_told,
    keys_values_and_headers_come_back_as_they_went,
    records_without_a_key_or_a_value_and_large_ones_come_back_whole,
    duplicate_and_empty_header_names_keep_their_order,
    a_poll_returns_no_more_records_than_it_may,
    positions_that_are_out_of_range_come_between_records,
    a_partition_that_is_read_again_starts_where_it_is_told,
    time_zero_becomes_the_current_time_and_others_stay,
    keys_go_where_murmur2_says,
    a_record_that_is_too_large_is_refused,
    the_end_is_reported_once_per_end,
    the_end_of_an_empty_partition_is_reported,
    deleted_records_move_the_start,
    a_position_before_the_start_is_out_of_range,
    a_position_beyond_the_end_is_out_of_range,
    a_compacted_topic_refuses_to_delete_records,
    offsets_are_found_by_time,
    absent_topics_are_left_out_of_descriptions,
    creating_a_topic_twice_is_fine,
    whoever_made_a_topic_is_told_so,
    configurations_are_what_was_asked_for,
]
