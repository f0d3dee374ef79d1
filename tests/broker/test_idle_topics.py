"""Windows close on idle topics on the real broker, and late records come once each, although the
process is killed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.idle_app import application
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

USERS = [f"user-{number}" for number in range(12)]
PAGES = [f"page-{number}" for number in range(3)]
FINALS = sorted(f"{key}@0" for key in USERS + PAGES)
#: each late click misses the window of its user and that of its page
LATE = sorted(
    f"{store} page-{number % 3}" for store in ("per-user", "per-page") for number in range(12)
)


class Clicks:
    """A click of each user, all in one window, and the results."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._prefix = prefix
        for topic, partitions in (("clicks", 2), ("finals", 1), ("late", 1)):
            create_topic(bootstrap, f"{prefix}-{topic}", partitions=partitions)
        self.cluster = KafkaCluster(bootstrap)
        self._reader = self.cluster.log_consumer()
        self._outputs = [TopicPartition(f"{prefix}-{topic}", 0) for topic in ("finals", "late")]
        self._reader.assign(dict.fromkeys(self._outputs, 0))
        self.finals: list[str] = []
        self.late: list[str] = []

    def send(self) -> None:
        """The same clicks each time."""
        producer = self.cluster.plain_producer()
        for number, user in enumerate(USERS):
            page = PAGES[number % 3].encode()
            topic = f"{self._prefix}-clicks"
            producer.produce([ProducedRecord(topic, number % 2, user.encode(), page, 7, None)])
        producer.flush()
        producer.close()

    def read(self) -> None:
        """Read the committed results so far."""
        for partition, records in self._reader.poll(1_000, 0.1).records.items():
            if partition == self._outputs[0]:
                self.finals += [(record.key() or b"").decode() for record in records]
            else:
                self.late += [(record.value() or b"").decode() for record in records]

    def wait_for(self, results: list[str], count: int) -> None:
        """Read until there are so many results of a kind."""

        def are_there() -> bool:
            self.read()
            return len(results) >= count

        until(are_there, lambda: f"{self.finals}, late: {self.late}")

    def read_to_end(self) -> None:
        """Read everything that was committed."""
        ends = self.cluster.admin().end_offsets(self._outputs)

        def is_read() -> bool:
            self.read()
            return all((self._reader.position(tp) or 0) >= end for tp, end in ends.items())

        until(is_read)


@pytest.mark.parametrize("kill_after", [14, 30])
def test_windows_close_and_late_records_come_once(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, kill_after: int
) -> None:
    prefix = unique("idle")
    clicks = Clicks(bootstrap, prefix)
    clicks.send()
    dies_later = kill_after > len(FINALS)
    process = start_module("tests.broker.idle_app", bootstrap, prefix, tmp_path, kill_after)
    if dies_later:
        clicks.wait_for(clicks.finals, len(FINALS))
        clicks.send()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    with application(bootstrap, prefix, tmp_path):
        clicks.wait_for(clicks.finals, len(FINALS))
        if not dies_later:
            clicks.send()
        clicks.wait_for(clicks.late, len(LATE))
    clicks.read_to_end()
    assert sorted(clicks.finals) == FINALS
    assert sorted(clicks.late) == LATE
