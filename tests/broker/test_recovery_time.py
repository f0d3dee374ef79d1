"""After SIGKILL under steady load: how soon the first new commit comes, and what is replayed.

``LOGSTATE_RECOVERY_MIB=1024 pytest -s tests/broker/test_recovery_time.py`` runs it with a GiB of
state instead of 64 MiB. At commit 9ce850e it printed (the file cache was warm)::

    1024 MiB of state: first commit 5.74 s after the process started; changelogs hold 1050712
    offsets, 280 of them since the last apply (checkpoint_interval 0:00:01 allows 1560); 220 records
    replayed
    1024 MiB of state: first commit 4.76 s after the process started; changelogs hold 1080276
    offsets, 1427 of them since the last apply (checkpoint_bytes 2 MiB per task allows 8616); 1376
    records replayed
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.recovery_app import (
    CHECKPOINT,
    CHECKPOINT_BYTES,
    COMMIT,
    NEVER,
    TRANSACTION_TIMEOUT_S,
    application,
)
from tests.campaigns.toolkit.process import kill, start_module
from tests.patience import PATIENCE_S, until

PARTITIONS = 2
ROW_BYTES = 1_024
STATE_MIB = int(os.environ.get("LOGSTATE_RECOVERY_MIB", "64"))
ROWS = STATE_MIB * 1_024
PER_SECOND = 500
#: the most a task processes between two looks at the clock
POLL_RECORDS = 2_000
#: far below the time-out of the killed one's transaction, far above what a busy machine needs
FIRST_COMMIT_LIMIT_S = float(os.environ.get("LOGSTATE_LIMIT_S", TRANSACTION_TIMEOUT_S / 3))


class Bench:
    """One application, its rows and the load on it."""

    def __init__(self, bootstrap: str, prefix: str, path: Path) -> None:
        self.bootstrap, self.prefix, self.path = bootstrap, prefix, path
        self.cluster = KafkaCluster(bootstrap)
        self.admin = self.cluster.admin()
        self.producer = self.cluster.plain_producer()
        self.expected: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._rng = random.Random(11)
        self._sequence = 0
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._load = threading.Thread(target=self._feed, daemon=True)
        names = [f"{prefix}-rows", f"{prefix}-seen"]
        self.admin.create_topics([NewTopic(name, PARTITIONS, 1, {}) for name in names])
        self.seen = [TopicPartition(f"{prefix}-seen", p) for p in range(PARTITIONS)]
        self.changelogs = [
            TopicPartition(f"{prefix}-latest-changelog", p) for p in range(PARTITIONS)
        ]

    # ------------------------------------------------------------------ load

    def send(self, keys: list[int]) -> None:
        """One new row for each key; two threads do this."""
        with self._sending:
            records = []
            for key in keys:
                self._sequence += 1
                payload = self._rng.randbytes(ROW_BYTES // 2).hex()
                name = f"key-{key}"
                self.expected[name] = str(self._sequence)
                value = f"{self._sequence}:{payload}".encode()
                records.append(ProducedRecord(f"{self.prefix}-rows", None, name.encode(), value, 1))
            self.producer.produce(records)

    def start_load(self) -> None:
        self._load.start()

    def stop_load(self) -> None:
        self._stopping.set()
        self._load.join(PATIENCE_S)
        self.producer.flush()

    def _feed(self) -> None:
        while not self._stopping.wait(0.05):
            self.send([self._rng.randrange(ROWS) for _ in range(PER_SECOND // 20)])

    # ------------------------------------------------------------------ the application

    def start(self, log: Path, checkpoint: timedelta) -> None:
        self.process = start_module(
            "tests.broker.recovery_app",
            *(self.bootstrap, self.prefix, self.path / "state", checkpoint.total_seconds()),
            log=log,
            stdout=None,
        )

    def kill(self) -> None:
        assert self.process is not None
        kill(self.process)
        self.process = None

    def wait_for_outputs(
        self, first: dict[TopicPartition, int], count: int, limit_s: float = PATIENCE_S
    ) -> float:
        """Read committed outputs from ``first``; returns the time when ``count`` were there."""
        reader = self.cluster.log_consumer()
        reader.assign(first)
        found, deadline = 0, time.monotonic() + limit_s
        while found < count:
            assert time.monotonic() < deadline, f"{found} of {count} outputs after {limit_s} s"
            found += sum(map(len, reader.poll(10_000, 0.05).records.values()))
        now = time.monotonic()
        reader.close()
        return now

    def stored_positions(self) -> dict[TopicPartition, int]:
        """Changelog positions in a copy of what the killed process left on its disk."""
        copy = self.path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.path / "state", copy)
        found = {}
        for changelog in self.changelogs:
            backend = RocksBackend(copy / self.prefix / f"0_{changelog.partition}")
            meta = msgspec.msgpack.decode(backend.get(b"\x00meta") or b"", type=StoredMeta)
            backend.close()
            found[changelog] = meta.positions["latest"]
        shutil.rmtree(copy)
        return found

    def tail(self) -> int:
        """Offsets of the changelogs since the last apply, of a process that stands still."""
        stored, ends = self.stored_positions(), self.admin.end_offsets(self.changelogs)
        return sum(ends[tp] - stored[tp] for tp in self.changelogs)

    def stop_where_the_tail_is_at_most(self, allowed: float) -> None:
        """Stop it at a moment of no choice, and only where the machine held it up go on and again.

        After a pause of the machine it has much to catch up with, and applies after that.
        """
        process = self.process
        assert process is not None
        tails: list[int] = []

        def is_short() -> bool:
            process.send_signal(signal.SIGSTOP)
            tails.append(self.tail())
            if tails[-1] <= allowed:
                return True
            process.send_signal(signal.SIGCONT)
            time.sleep(CHECKPOINT.total_seconds())
            return False

        until(is_short, lambda: f"offsets since the last apply, again and again: {tails}")

    def close(self) -> None:
        self._stopping.set()
        if self.process is not None:
            kill(self.process)
        self.producer.close()


@pytest.fixture
def bench(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Bench]:
    made = Bench(bootstrap, unique("recovery"), tmp_path)
    yield made
    made.close()


def test_after_a_kill_the_first_commit_comes_soon_and_only_the_tail_is_replayed(
    bench: Bench, tmp_path: Path
) -> None:
    bench.start(tmp_path / "first.log", CHECKPOINT)
    for first in range(0, ROWS, 10_000):
        bench.send(list(range(first, min(ROWS, first + 10_000))))
        bench.producer.flush()
    bench.wait_for_outputs(dict.fromkeys(bench.seen, 0), ROWS, PATIENCE_S + STATE_MIB)
    bench.start_load()
    # Steady: several applies under load, and the kill comes well after the last of them.
    time.sleep(3.6 * CHECKPOINT.total_seconds())

    # Each commit adds a marker to each changelog, and may come late by as much as an apply takes.
    offsets_per_s = PER_SECOND + PARTITIONS / COMMIT.total_seconds()
    by_time = offsets_per_s * (CHECKPOINT.total_seconds() + 2)
    _kill_and_recover(
        bench, tmp_path / "next.log", NEVER, by_time, f"checkpoint_interval {CHECKPOINT}"
    )

    per_partition = 2 * CHECKPOINT_BYTES // ROW_BYTES
    bench.send([n % ROWS for n in range(3 * PARTITIONS * per_partition)])
    time.sleep(3.6 * CHECKPOINT.total_seconds())
    # A commit that passes the limit is applied whole: it holds no more than one poll brought.
    by_bytes = CHECKPOINT_BYTES / ROW_BYTES + PARTITIONS * POLL_RECORDS + offsets_per_s
    what = f"checkpoint_bytes {CHECKPOINT_BYTES >> 20} MiB"
    _kill_and_recover(bench, tmp_path / "last.log", CHECKPOINT, by_bytes, what)

    bench.stop_load()
    _check_rows(bench)


def _kill_and_recover(
    bench: Bench, log: Path, checkpoint: timedelta, allowed: float, bound: str
) -> None:
    """``allowed`` offsets may have to be replayed, because of ``bound``."""
    bench.stop_where_the_tail_is_at_most(0.9 * allowed)  # what is on its way arrives
    bench.kill()
    stored = bench.stored_positions()
    before = bench.admin.end_offsets(bench.seen)
    ends = bench.admin.end_offsets(bench.changelogs)
    started = time.monotonic()
    bench.start(log, checkpoint)
    took_s = bench.wait_for_outputs(before, 1, FIRST_COMMIT_LIMIT_S) - started
    replayed = sum(int(n) for n in re.findall(r": restored (\d+) records", log.read_text()))
    tail = sum(ends[tp] - stored[tp] for tp in bench.changelogs)
    print(
        f"\n{STATE_MIB} MiB of state: first commit {took_s:.2f} s after the process started;"
        f" changelogs hold {sum(ends.values())} offsets, {tail} of them since the last apply"
        f" ({bound} allows {allowed:.0f}); {replayed} records replayed"
    )
    assert replayed <= tail
    assert tail <= allowed
    assert min(stored.values()) > 0, "no apply survived the kill"


def _check_rows(bench: Bench) -> None:
    assert bench.process is not None
    bench.process.terminate()
    assert bench.process.wait(PATIENCE_S) == 0
    bench.process = None
    with application(bench.bootstrap, bench.prefix, bench.path / "state") as app:

        def rows() -> dict[str, str]:
            try:
                return {key: row.value.partition(":")[0] for key, row in app.store("latest").all()}
            except StoreUnavailableError:
                return {}

        until(lambda: rows() == bench.expected, lambda: f"{len(rows())} rows are not what was sent")
