"""How long the newest cut takes to tell: ``python -m tests.performance.cut_latency``.

24 tasks commit ten times a second each, every one with its own transactional producer. Then one of
them dies between sending its offsets and the commit. The last line is JSON, in seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from logstate.changelog.cut import encode_task_cut
from logstate.changelog.spark import latest_cut
from logstate.contracts.records import TopicPartition as LogPartition
from logstate.kafka.offset_metadata import send_offsets
from logstate.local_broker.broker import LocalBroker
from tests.spark.changelog_writer import ApplicationLog, int64

TASKS = 24
INTERVAL_S = 0.1


@contextmanager
def committers(log: ApplicationLog, topic: str, tasks: int) -> Iterator[None]:
    """Tasks that commit, a thread each, until left."""
    is_over = Event()
    threads = [Thread(target=commit, args=(log, topic, n, is_over)) for n in range(tasks)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def commit(log: ApplicationLog, topic: str, task: int, is_over: Event) -> None:
    producer = log.new_producer()
    group = {"bootstrap.servers": log.bootstrap, "group.id": log.application}
    member = Consumer(group)
    number = 0
    while not is_over.is_set():
        begun = time.monotonic()
        number += 1
        producer.begin_transaction()
        end: list[int] = []
        producer.produce(
            topic,
            int64(number),
            f"{task}",
            task,
            on_delivery=lambda _, message, end=end: end.append(message.offset() + 1),
        )
        producer.flush(30)
        cut = encode_task_cut(
            {log.source: (number, 0)}, positions={topic: end[0]}, clocks={}, topic_ids={}
        )
        offsets = {LogPartition(log.source, task): (number, cut.metadata[log.source])}
        send_offsets(producer, offsets, member.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        is_over.wait(max(0.0, begun + INTERVAL_S - time.monotonic()))
    member.close()


def seconds_of(ask: Callable[[], Any], times: int) -> list[float]:
    found = []
    for _ in range(times):
        begun = time.monotonic()
        ask()
        found.append(time.monotonic() - begun)
    return sorted(found)


def measured(bootstrap: str, application: str, times: int, tasks: int = TASKS) -> dict[str, float]:
    """p50 and p95 while all commit, and the same beside a dead instance."""
    log = ApplicationLog(bootstrap, application, partitions=tasks)
    topic = log.add_store("spend")

    def ask() -> str:
        return latest_cut(bootstrap, application)

    found: dict[str, float] = {}
    with committers(log, topic, tasks):
        wait_for_all(log, tasks)
        for name in ("alive", "beside_a_dead_one"):
            if name == "alive":
                seconds = seconds_of(ask, times)
            else:
                with log.pending_commit(10**9, {topic: 10**9}, topic, [(b"x", int64(0))]):
                    seconds = seconds_of(ask, times)
            found[f"{name}_p50_s"] = round(seconds[len(seconds) // 2], 3)
            found[f"{name}_p95_s"] = round(seconds[int(len(seconds) * 0.95)], 3)
    return found


def wait_for_all(log: ApplicationLog, tasks: int) -> None:
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": log.application})
    deadline = time.monotonic() + 60
    while True:
        asked = [TopicPartition(log.source, n) for n in range(tasks)]
        if all(tp.offset >= 0 for tp in consumer.committed(asked, 30)):
            break
        assert time.monotonic() < deadline, "not every task has committed"
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    given = parser.parse_args()
    application = f"cut-latency-{time.time_ns()}"
    if given.bootstrap:
        print(json.dumps(measured(given.bootstrap, application, given.times)))
        return
    with LocalBroker.start(heap="768m") as broker:
        print(json.dumps(measured(broker.bootstrap, application, given.times)))


if __name__ == "__main__":
    main()
