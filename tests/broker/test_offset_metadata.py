"""The metadata of committed offsets, byte for byte, between the JVM's clients and ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from logstate.changelog.cut import decode_cut
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker import metadata_reader
from tests.broker.jvm_program import HERE, answer
from tests.broker.patient_producers import initialised

PARTITIONS = 60


def seen_by_jvm(bootstrap: str, group: str, lines: list[str]) -> dict[int, tuple[int, str]]:
    """Commits the lines; partition to offset and metadata, of the one topic of the group."""
    found = {}
    for line in answer("GroupOffsets.java", bootstrap, group, lines=lines):
        _, partition, offset, metadata = line.split(" ")
        found[int(partition)] = (int(offset), bytes.fromhex(metadata).decode())
    return found


def make_topic(bootstrap: str, topic: str) -> None:
    admin = KafkaCluster(bootstrap).admin()
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, {})])
    admin.close()


def test_what_the_jvm_commits_is_read_exactly_whatever_lies_behind_it_in_memory(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic, group = unique("in"), unique("group")
    make_topic(bootstrap, topic)
    times = {n: {"s" * n: 1_000 + n} if n else {} for n in range(PARTITIONS)}
    lines = [
        " ".join([f"{topic} {n} {n} {500 + n}", *(f"{k}={v}" for k, v in times[n].items())])
        for n in range(PARTITIONS)
    ]
    written = seen_by_jvm(bootstrap, group, lines)
    assert len({len(metadata) for _, metadata in written.values()}) > 20

    # New memory and memory that was given back is filled with bytes that no text contains.
    done = subprocess.run(
        [sys.executable, "-m", metadata_reader.__name__, bootstrap, group, topic, f"{PARTITIONS}"],
        cwd=HERE.parents[1],
        env={**os.environ, "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = {
        (way, n): (offset, metadata, count)
        for way, n, offset, metadata, count in json.loads(done.stdout)
    }
    assert found == {
        (way, n): (*written[n], count)
        for way, count in metadata_reader.WAYS.items()
        for n in range(PARTITIONS)
    }
    for n, (offset, metadata) in written.items():
        decoded = decode_cut(metadata, committed_offset=offset)
        assert (decoded.partition_time_ms, decoded.processor_times) == (500 + n, times[n])


def test_the_brokers_keep_exactly_the_bytes_that_a_transaction_commits(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic, group = unique("in"), unique("group")
    make_topic(bootstrap, topic)
    texts = {0: "", 1: "AgAAAAAAAAAF", 2: "größe", 3: "x" * 4096}
    texts |= {n: "y" * n for n in range(4, PARTITIONS)}
    cluster = KafkaCluster(bootstrap)
    member = cluster.group_consumer(group_id=group, instance_id=None)
    producer = initialised(cluster.transactional_producer(unique("id")))
    producer.begin()
    producer.send_offsets(
        {TopicPartition(topic, n): (n, text) for n, text in texts.items()}, member.group_metadata()
    )
    producer.commit()
    producer.close()

    assert seen_by_jvm(bootstrap, group, []) == {n: (n, text) for n, text in texts.items()}
    read = member.committed([TopicPartition(topic, n) for n in texts], 30)
    assert {tp.partition: tuple(one) for tp, one in read.items()} == {
        n: (n, text) for n, text in texts.items()
    }
    member.close()


def test_what_was_committed_with_a_byte_too_many_is_read_without_it(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic, group = unique("in"), unique("group")
    make_topic(bootstrap, topic)
    cluster = KafkaCluster(bootstrap)
    member = cluster.group_consumer(group_id=group, instance_id=None)
    producer = initialised(cluster.transactional_producer(unique("id")))
    producer.begin()
    producer.send_offsets({TopicPartition(topic, 0): (7, "text\x00")}, member.group_metadata())
    producer.commit()
    producer.close()

    assert seen_by_jvm(bootstrap, group, []) == {0: (7, "text\x00")}
    read = member.committed([TopicPartition(topic, 0)], 30)
    assert read == {TopicPartition(topic, 0): (7, "text")}
    member.close()
