"""Thread time of a record between librdkafka and Python, with the extension module and without.

    python -m tests.performance.record_path --rounds 5

A broker that librdkafka mocks in this process has the records. Fetching: everything is in the
client's queue already, and the five fields that the engine reads are read. Producing: a batch of
2,000 results by key in a transaction. Printed are nanoseconds of the calling thread per record, of
each the median and the least of all rounds; the ways take turns.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from statistics import median

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.extension import VARIABLE, why_not_loaded
from logstate.kafka.record_source import record_source
from tests.performance.stages import mocked_broker

_TOPIC = "records"
_RECORDS = 40_000
_BATCH = 2_000
_PARTITIONS = 4
#: until the client has fetched everything
_FETCHED_S = 3.0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser("python -m tests.performance.record_path", None, __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if reason := why_not_loaded():
        print(f"the extension module cannot be used: {reason}")
    owner, address = mocked_broker([_TOPIC, "results"])
    _load(owner)
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for way, value in (("extension", "1"), ("client's objects", "0")):
            os.environ[VARIABLE] = value
            found.setdefault(("fetch", way), []).append(fetching(address))
            found.setdefault(("produce", way), []).append(producing(address))
    for (what, way), times in sorted(found.items()):
        print(f"{what:8} {way:17} median {median(times):5.0f}  least {min(times):5.0f} ns")


def _load(producer: Producer) -> None:
    for n in range(_RECORDS):
        value = b'{"user":"u%06d","amount":%.2f,"ts":%d.0}' % (n % 977, n / 7, n)
        producer.produce(_TOPIC, value, b"u%06d" % (n % 977), n * _PARTITIONS // _RECORDS)
    producer.flush(60)


def fetching(address: str) -> float:
    """Nanoseconds of a fetched record."""
    settings = {"group.id": "readers", "enable.auto.commit": False, "enable.partition.eof": True}
    limits = {"queued.min.messages": 500_000}
    consumer = Consumer({"bootstrap.servers": address, **settings, **limits})
    source = record_source(consumer, {})
    partitions = [TopicPartition(_TOPIC, n) for n in range(_PARTITIONS)]
    source.attach(partitions)
    consumer.assign([ClientPartition(*partition, 0) for partition in partitions])
    source.attach(partitions)
    time.sleep(_FETCHED_S)
    gc.collect()
    ended = count = 0
    began = time.thread_time_ns()
    while ended < _PARTITIONS:
        polled = source.take(_BATCH, 1.0, "fetch")
        ended += len(polled.ends)
        for records in polled.records.values():
            count += len(records)
            for record in records:
                record.key(), record.value(), record.timestamp(), record.headers(), record.offset()
    taken = time.thread_time_ns() - began
    source.close()
    consumer.close()
    assert count >= _RECORDS // 2, "the mocked broker has dropped its records"
    return taken / count


def producing(address: str) -> float:
    """Nanoseconds of a produced record."""
    producer = KafkaCluster(address).transactional_producer(f"writer-{os.environ[VARIABLE]}")
    producer.init_transactions()
    records: list[ProducedFields] = [
        ("results", None, b"u%06d" % n, b'{"user":"u%06d","amount":1.25}' % n, 1_000 + n, None)
        for n in range(_BATCH)
    ]
    times = []
    for _ in range(10):
        producer.begin()
        began = time.thread_time_ns()
        producer.produce(records)
        times.append((time.thread_time_ns() - began) / _BATCH)
        producer.flush()
        producer.abort()
    producer.close()
    return median(times)


if __name__ == "__main__":
    main()
