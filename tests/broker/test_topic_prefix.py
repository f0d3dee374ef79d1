"""Two environments of one program on one broker: each has its own topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.topology import StreamsBuilder, Topology
from tests.broker.committed import committed_records
from tests.patience import PATIENCE_S, until


def counting() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(re.compile("orders-.*"), key=str, value=int)
    names = builder.global_table("names", key=str, value=str, store="names")
    counts = orders.group_by_key().count(store="counts").to_stream()
    named = counts.join(
        names,
        lambda count, name: f"{name}: {count}",
        key_mapper=lambda key, count: key,
        value=str,
    )
    named.to(lambda key, text: f"counts-of-{key}")
    return builder.build()


def test_each_environment_reads_and_writes_its_own_topics(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    admin = KafkaCluster(bootstrap).admin()
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    prefixes = {f"{unique(name)}.": number for number, name in enumerate(("staging", "prod"), 1)}
    for prefix, number in prefixes.items():
        names = ("orders-eu", "orders-us", "names", "counts-of-ada", "letters")
        admin.create_topics([NewTopic(prefix + name, 2, 1, {}) for name in names])
        producer.produce(f"{prefix}names", key=b"ada", value=f"Ada {number}".encode())
        for topic in ("orders-eu", "orders-us") * number:
            producer.produce(prefix + topic, key=b"ada", value=(1).to_bytes(8, "big"))
        producer.produce(f"{prefix}orders-eu", key=b"ada", value=b"no number")
    assert producer.flush(PATIENCE_S) == 0

    def values(topic: str) -> list[bytes | None]:
        partitions = [TopicPartition(topic, number) for number in range(2)]
        return [record.value() for record in committed_records(bootstrap, *partitions)]

    with ExitStack() as running:
        for prefix, number in prefixes.items():
            app = Application(
                counting,
                application_id=f"{prefix}counting",
                bootstrap=bootstrap,
                state_dir=tmp_path / prefix,
                topic_prefix=prefix,
                workers=number,  # a thread, and two processes
                error_handlers=ErrorHandlers(
                    deserialization=dead_letter, dead_letter_topic="letters"
                ),
            )
            running.enter_context(app)
            app.wait_until_running(timedelta(seconds=PATIENCE_S))
            app.wait_until_caught_up(timedelta(seconds=PATIENCE_S))
    for prefix, number in prefixes.items():
        counted = values(f"{prefix}counts-of-ada")
        assert counted == [f"Ada {number}: {n}".encode() for n in range(1, 2 * number + 1)]
        assert values(f"{prefix}letters") == [b"no number"]
    until(lambda: all(f"{one}counting-cuts" in admin.topic_names() for one in prefixes))
    admin.close()
