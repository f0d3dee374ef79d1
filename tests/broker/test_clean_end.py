"""SIGTERM and SIGINT under load: the end comes soon, and everything processed is committed.

How soon is for `LOGSTATE_LIMIT_S=10 ./dev test tests/broker/test_clean_end.py` on a quiet machine.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.patient_offsets import committed_offsets
from tests.campaigns.chaos.environment import open_transactions
from tests.campaigns.toolkit.process import kill, start_module
from tests.patience import PATIENCE_S, until

PARTITIONS = 2
PER_SECOND = 2_000
#: an end that waits for the brokers to give up on a transaction takes longer than the limit
TRANSACTION_TIMEOUT_S = 600
END_LIMIT_S = float(os.environ.get("LOGSTATE_LIMIT_S", TRANSACTION_TIMEOUT_S / 2))


class Load:
    """Clicks at a steady rate, and an instance of the counting application that reads them."""

    def __init__(self, bootstrap: str, prefix: str, path: Path) -> None:
        self.prefix, self.path = prefix, path
        self.cluster = KafkaCluster(bootstrap)
        self.admin = self.cluster.admin()
        topics = [f"{prefix}-{topic}" for topic in ("clicks", "per-user", "per-page")]
        self.admin.create_topics([NewTopic(name, PARTITIONS, 1, {}) for name in topics])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()
        self.process = start_module(
            "tests.broker.counting_app",
            *(bootstrap, prefix, path, "--transaction-timeout-s", TRANSACTION_TIMEOUT_S),
        )

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(f"{self.prefix}-{topic}", p) for p in range(PARTITIONS)]

    def committed_outputs(self, at_least: int) -> int:
        """Read the counts per user, committed ones only, up to what is there now.

        Waits for ``at_least`` so many of each partition.
        """
        reader, found = self.cluster.log_consumer(), Counter[TopicPartition]()
        reader.assign(dict.fromkeys(self.partitions("per-user"), 0))

        def are_read() -> bool:
            for partition, records in reader.poll(10_000, 0.1).records.items():
                found[partition] += len(records)
            if any(found[tp] < at_least for tp in self.partitions("per-user")):
                return False
            return self.process.poll() is None or all(
                (reader.position(tp) or 0) >= end
                for tp, end in self.admin.end_offsets(self.partitions("per-user")).items()
            )

        until(are_read, lambda: f"{found} of {at_least} outputs each")
        reader.close()
        return found.total()

    def last_committed(self, partition: TopicPartition, end: int) -> int:
        """Offset of the last committed record of a partition that ends at ``end``."""
        reader, last = self.cluster.log_consumer(), -1
        reader.assign({partition: 0})

        def is_read() -> bool:
            nonlocal last
            for record in reader.poll(10_000, 0.1).records.get(partition, ()):
                last = record.offset() or 0
            return (reader.position(partition) or 0) >= end

        until(is_read, f"reading {partition} stands still before {end}")
        reader.close()
        return last

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        kill(self.process)
        self.admin.close()

    def _feed(self) -> None:
        producer, rng = self.cluster.plain_producer(), random.Random(5)
        while not self._stopping.wait(0.05):
            users = [f"user-{rng.randrange(500)}".encode() for _ in range(PER_SECOND // 20)]
            topic = f"{self.prefix}-clicks"
            producer.produce([ProducedRecord(topic, None, user, b"page", 1) for user in users])
        producer.close()


@pytest.fixture
def load(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Load]:
    made = Load(bootstrap, unique("end"), tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_with_everything_committed(
    load: Load, bootstrap: str, number: signal.Signals
) -> None:
    load.committed_outputs(at_least=PER_SECOND // PARTITIONS)

    started = time.monotonic()
    load.process.send_signal(number)
    assert load.process.wait(END_LIMIT_S) == 0
    took_s = time.monotonic() - started

    print(f"\n{number.name}: ended after {took_s:.2f} s")
    committed = committed_offsets(load.admin, load.prefix, load.partitions("clicks"))
    offsets = [found.offset or 0 for found in committed.values()]
    # Every click is one output: what was processed was sent, and what was sent is committed.
    assert load.committed_outputs(at_least=1) == sum(offsets)
    # One that is decided is complete once its markers are written.
    until(lambda: not [name for name in open_transactions(bootstrap) if load.prefix in name])
    # The local rows know all that counts: what follows are markers, and what a busy broker refused.
    changelogs = load.partitions("per-user-changelog")
    for changelog, end in load.admin.end_offsets(changelogs).items():
        backend = RocksBackend(load.path / load.prefix / f"0_{changelog.partition}")
        meta = msgspec.msgpack.decode(backend.get(b"\x00meta") or b"", type=StoredMeta)
        backend.close()
        assert meta.positions["per-user"] > load.last_committed(changelog, end) >= 0
