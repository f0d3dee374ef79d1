"""Sorted, limited, ranked and expired records on the real broker, through kills."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.testing import TopologyTestDriver
from tests.broker.committed import read_to_end
from tests.broker.killed_app import application
from tests.broker.ordered_app import BEST, topology
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

#: number of the result before which a process is killed, one process after the other
KILLS = (1, 9, 4)
ROUNDS, USERS = len(KILLS) + 3, 6
PARTITIONS = 2
OUTPUTS = ("sorted", "few", "steps", "gone", "best")
#: key, value and timestamp
Result = tuple[str, str, int]


class Clicks:
    """Clicks of each round, and the results so far."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._topic = f"{prefix}-clicks"
        create_topic(bootstrap, self._topic, partitions=PARTITIONS)
        for topic in OUTPUTS:
            create_topic(bootstrap, f"{prefix}-{topic}", partitions=1)
        self.cluster = KafkaCluster(bootstrap)
        self._reader = self.cluster.log_consumer()
        self._outputs = {TopicPartition(f"{prefix}-{topic}", 0): topic for topic in OUTPUTS}
        self._reader.assign(dict.fromkeys(self._outputs, 0))
        #: of each partition
        self.sent: dict[int, list[Result]] = defaultdict(list)
        self.found: dict[str, list[Result]] = {topic: [] for topic in OUTPUTS}

    def send(self, number: int) -> None:
        """Each user clicks twice, out of order; every third one misses every second round."""
        producer = self.cluster.plain_producer()
        for user in range(USERS):
            if user % 3 == number % 2 == 1:
                continue
            for step in (9, 2):
                name, page = f"user-{user}", f"p{(user * number + step) % 5}"
                partition, time = user % PARTITIONS, number * 25 + step + user
                fields = (self._topic, partition, name.encode(), page.encode(), time, None)
                producer.produce([ProducedRecord(*fields)])
                self.sent[partition].append((name, page, time))
        producer.flush()
        producer.close()

    def read(self) -> dict[str, list[Result]]:
        """Read the committed results so far."""
        for partition, records in self._reader.poll(1_000, 0.1).records.items():
            self.found[self._outputs[partition]] += [
                ((one.key() or b"").decode(), (one.value() or b"").decode(), one.timestamp()[1])
                for one in records
            ]
        return self.found

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        read_to_end(self.cluster, self._reader, self._outputs, self.read)

    def expected(self) -> dict[str, list[Result]]:
        """Return what a task of each partition sends that never stops."""
        found: dict[str, list[Result]] = {topic: [] for topic in OUTPUTS if topic != "best"}
        for sent in self.sent.values():
            with TopologyTestDriver(topology("in")) as driver:
                driver.pipe_all("in-clicks", sent)
                for topic, results in found.items():
                    results += driver.read_with_timestamps(f"in-{topic}", value=str)
        return found

    def best(self) -> str:
        """Return the pages with the most clicks."""
        pages = Counter(page for sent in self.sent.values() for _, page, _ in sent)
        first = sorted(pages, key=lambda page: (pages[page], page), reverse=True)
        return " ".join(first[:BEST])

    def is_complete(self) -> bool:
        """Whether all results have come, and no other ones."""
        found, expected = self.read(), self.expected()
        is_best = found["best"] and found["best"][-1][1] == self.best()
        return bool(is_best) and all(
            Counter(found[topic]) == Counter(results) for topic, results in expected.items()
        )


def test_sorted_ranked_and_expired_records_come_once_although_processes_are_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    prefix = unique("ordered")
    clicks = Clicks(bootstrap, prefix)
    for number, kill_after in enumerate(KILLS):
        clicks.send(2 * number)
        clicks.send(2 * number + 1)
        process = start_module("tests.broker.ordered_app", bootstrap, prefix, tmp_path, kill_after)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    for number in range(2 * len(KILLS), 2 * ROUNDS):
        clicks.send(number)
    with application(topology, bootstrap, prefix, tmp_path):
        until(clicks.is_complete, lambda: f"{clicks.found} instead of {clicks.expected()}")
    clicks.read_to_end()
    assert clicks.is_complete()
    for user in range(USERS):
        times = [time for key, _, time in clicks.found["sorted"] if key == f"user-{user}"]
        assert times == sorted(times)
    assert clicks.found["gone"]
    assert 0 < len(clicks.found["few"]) < len(clicks.found["steps"])
