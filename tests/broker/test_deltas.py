"""Deltas on the real broker add up to the rows, changes have the value before, and numbers of panes
have no gaps, although the process is killed while it sends.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.committed import read_to_end
from tests.broker.delta_app import SIZE_MS, topology
from tests.broker.killed_app import application
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

#: number of the delta before which a process is killed, one process after the other
KILLS = (1, 9, 2)
ROUNDS, USERS = len(KILLS) + 1, 6
#: two of each user in each round
CLICKS = (ROUNDS + 1) * USERS * 2


class Clicks:
    """Clicks of each round, and the deltas."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._topic = f"{prefix}-clicks"
        create_topic(bootstrap, self._topic, partitions=2)
        for topic in ("deltas", "changes", "panes"):
            create_topic(bootstrap, f"{prefix}-{topic}", partitions=1)
        self.cluster = KafkaCluster(bootstrap)
        self._reader = self.cluster.log_consumer()
        self._outputs = [
            TopicPartition(f"{prefix}-{topic}", 0) for topic in ("deltas", "changes", "panes")
        ]
        self._reader.assign(dict.fromkeys(self._outputs, 0))
        self.wanted, self.sums = Counter[str](), Counter[str]()
        self.visits: dict[str, str] = {}
        self.panes: dict[str, list[str]] = {}

    def send(self, number: int) -> None:
        """Each user clicks in the window of the round and, again, in that of the first one."""
        producer = self.cluster.plain_producer()
        for user in range(USERS):
            name, page = f"user-{user}", f"p{user % 3}"
            for time in (number * SIZE_MS + user, user):
                fields = (self._topic, user % 2, name.encode(), page.encode(), time + 1, None)
                producer.produce([ProducedRecord(*fields)])
                start = (time + 1) // SIZE_MS * SIZE_MS
                self.wanted[f"{name}@{start}-{start + SIZE_MS}"] += 1
                self.wanted[page] += len(page)
        producer.flush()
        producer.close()

    def read(self) -> None:
        """Read the committed results so far; each change must follow from the one before it."""
        for partition, records in self._reader.poll(1_000, 0.1).records.items():
            for record in records:
                key, value = (record.key() or b"").decode(), (record.value() or b"").decode()
                if partition == self._outputs[0]:
                    self.sums[key] += int(value)
                elif partition == self._outputs[1]:
                    old, new = value.split()
                    assert self.visits.get(key, "None") == old, key
                    self.visits[key] = new
                else:
                    panes = self.panes.setdefault(key, [])
                    assert value.split()[0] == str(len(panes)), key
                    panes.append(value)

    def add_up(self) -> bool:
        """Whether the deltas so far add up to all clicks so far."""
        self.read()
        return self.sums == self.wanted

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        read_to_end(self.cluster, self._reader, self._outputs, self.read)


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
    with application(topology, bootstrap, prefix, tmp_path):
        until(clicks.add_up, lambda: f"{clicks.sums} instead of {clicks.wanted}")
        clicks.send(ROUNDS)
        until(clicks.add_up, lambda: f"{clicks.sums} instead of {clicks.wanted}")
    clicks.read_to_end()
    assert clicks.sums == clicks.wanted
    assert sum(int(n) for n in clicks.visits.values() if n != "None") == CLICKS
    first = [panes for key, panes in clicks.panes.items() if key.endswith("@0-10")]
    assert len(first) == USERS
    for panes in first:  # one user clicks twice in the first round, and once in each later one
        assert panes[-1].split()[1:] == ["late", str(ROUNDS + 2)]
