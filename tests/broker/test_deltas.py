"""Deltas on the real broker add up to the rows, although the process is killed while it sends."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.delta_app import SIZE_MS, application
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

#: number of the delta before which a process is killed, one process after the other
KILLS = (1, 9, 2)
ROUNDS, USERS = len(KILLS) + 1, 6


class Clicks:
    """Clicks of each round, and the deltas."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._topic = f"{prefix}-clicks"
        create_topic(bootstrap, self._topic, partitions=2)
        create_topic(bootstrap, f"{prefix}-deltas", partitions=1)
        self.cluster = KafkaCluster(bootstrap)
        self._reader = self.cluster.log_consumer()
        self._output = TopicPartition(f"{prefix}-deltas", 0)
        self._reader.assign({self._output: 0})
        self.wanted, self.sums = Counter[str](), Counter[str]()
        self.count = 0

    def send(self, number: int) -> None:
        """Each user clicks in the window of the round and, again, in that of the first one."""
        producer = self.cluster.plain_producer()
        for user in range(USERS):
            name, page = f"user-{user}", f"p{user % 3}"
            for time in (number * SIZE_MS + user, user):
                fields = (self._topic, user % 2, name.encode(), page.encode(), time + 1, None)
                producer.produce([ProducedRecord(*fields)])
                self.wanted[f"{name}@{(time + 1) // SIZE_MS * SIZE_MS}"] += 1
                self.wanted[page] += len(page)
        producer.flush()
        producer.close()

    def read(self) -> None:
        """Read the committed deltas so far."""
        for records in self._reader.poll(1_000, 0.1).records.values():
            for record in records:
                self.sums[(record.key() or b"").decode()] += int(record.value() or b"")
                self.count += 1

    def add_up(self) -> bool:
        """Whether the deltas so far add up to all clicks so far."""
        self.read()
        return self.sums == self.wanted

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        end = self.cluster.admin().end_offsets([self._output])[self._output]

        def is_read() -> bool:
            self.read()
            return (self._reader.position(self._output) or 0) >= end

        until(is_read)


def test_deltas_add_up_although_processes_are_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    prefix = unique("delta")
    clicks = Clicks(bootstrap, prefix)
    for number, kill_after in enumerate(KILLS):
        clicks.send(number)
        process = start_module("tests.broker.delta_app", bootstrap, prefix, tmp_path, kill_after)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    clicks.send(len(KILLS))
    with application(bootstrap, prefix, tmp_path):
        until(clicks.add_up, lambda: f"{clicks.sums} instead of {clicks.wanted}")
        clicks.send(ROUNDS)
        until(clicks.add_up, lambda: f"{clicks.sums} instead of {clicks.wanted}")
    clicks.read_to_end()
    assert clicks.sums == clicks.wanted
