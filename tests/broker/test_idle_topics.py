"""Windows close on idle topics on the real broker, and late records and panes come once each,
although the process is killed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker import panes_app
from tests.broker.committed import read_to_end
from tests.broker.killed_app import application
from tests.broker.raw_topic import create_topic
from tests.campaigns.idle_kills.story import MODES, Run
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

USERS = [f"user-{number}" for number in range(12)]
PAGES = [f"page-{number}" for number in range(3)]


@pytest.mark.parametrize("kind", ["tick", "late"])
def test_windows_close_and_late_records_come_once(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    run = Run(bootstrap, unique("idle"), tmp_path, MODES["alone"])
    try:
        found = run.kill_in([(kind, "emit")], lambda _: None)
    finally:
        run.close()
    assert found.wrong == []
    assert found.kills == {f"{kind}: emit": 1}


class Clicks:
    """A click of each user, all in one window, and the panes."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._topic, output = f"{prefix}-clicks", f"{prefix}-panes"
        create_topic(bootstrap, self._topic, partitions=2)
        create_topic(bootstrap, output, partitions=1)
        self.cluster = KafkaCluster(bootstrap)
        self._output = TopicPartition(output, 0)
        self._reader = self.cluster.log_consumer()
        self._reader.assign({self._output: 0})
        #: committed panes by window
        self.panes: dict[str, list[str]] = {}

    def send(self) -> None:
        """The same clicks each time."""
        producer = self.cluster.plain_producer()
        for number, user in enumerate(USERS):
            page = PAGES[number % 3].encode()
            producer.produce(
                [ProducedRecord(self._topic, number % 2, user.encode(), page, 7, None)]
            )
        producer.flush()
        producer.close()

    def read(self) -> None:
        """Read the committed panes so far."""
        for records in self._reader.poll(1_000, 0.1).records.values():
            for record in records:
                key, pane = (record.key() or b"").decode(), (record.value() or b"").decode()
                self.panes.setdefault(key, []).append(pane)

    def wait_for(self, value: Callable[[str], int]) -> None:
        """Read until the last pane of each window has the value of its key."""

        def are_there() -> bool:
            self.read()
            return all(
                self.panes.get(f"{key}@0", [""])[-1].endswith(f" {value(key)}")
                for key in USERS + PAGES
            )

        until(are_there, lambda: f"{self.panes}")

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        read_to_end(self.cluster, self._reader, [self._output], self.read)
        self._reader.close()


def test_panes_come_once_on_idle_topics_and_late_ones_follow(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    prefix = unique("panes")
    clicks = Clicks(bootstrap, prefix)
    clicks.send()
    # All panes of users are made by one tick of each of two tasks, and killed before the commit.
    process = start_module("tests.broker.panes_app", bootstrap, prefix, tmp_path, 3)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    with application(panes_app.topology, bootstrap, prefix, tmp_path):
        clicks.wait_for(lambda key: 1 if key in USERS else 4)
        clicks.send()
        clicks.wait_for(lambda key: 2 if key in USERS else 8)
    clicks.read_to_end()
    for user in USERS:
        assert clicks.panes[f"{user}@0"] == ["0 on_time None 1", "1 late 1 2"]
    for page in PAGES:
        first, *later = clicks.panes[f"{page}@0"]
        assert first == "0 on_time None 4"
        assert later == [f"{number} late {number + 3} {number + 4}" for number in range(1, 5)]
