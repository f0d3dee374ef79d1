"""An application of several processes, its input, and what must come of it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.counting_app import application
from tests.patience import PATIENCE_S, until

PARTITIONS = 4
USERS, PAGES = 60, 11
ROOT = Path(__file__).resolve().parents[2]


class Scenario:
    """One application, its input and its instances."""

    def __init__(self, bootstrap: str, prefix: str, path: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.path = path
        self.cluster = KafkaCluster(bootstrap)
        self.producer = self.cluster.plain_producer()
        self.sent: list[tuple[str, str]] = []
        self.instances: dict[int, subprocess.Popen[bytes]] = {}
        #: where the log of its present life begins
        self._born: dict[int, int] = {}
        #: of instances that start from now on
        self.standbys = 0
        #: the same
        self.transaction_timeout_s: int | None = None
        names = [f"{prefix}-{topic}" for topic in ("clicks", "per-user", "per-page")]
        self.cluster.admin().create_topics([NewTopic(n, PARTITIONS, 1, {}) for n in names])

    def start(self, number: int) -> None:
        """Start instance ``number``, again after a kill."""
        with self.log(number).open("ab") as log:
            self._born[number] = log.tell()
            self.instances[number] = self._process(number, log)

    def _process(self, number: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.broker.counting_app"]
        arguments = [self.bootstrap, self.prefix, str(self.state_dir(number))]
        arguments.append(str(self.standbys))
        if (timeout_s := self.transaction_timeout_s) is not None:
            arguments += ["--transaction-timeout-s", str(timeout_s)]
        return subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=log)

    def log(self, number: int) -> Path:
        """What instance ``number`` says, over all its lives."""
        return self.path / f"instance-{number}.log"

    def said(self, number: int, phrase: str) -> list[str]:
        """What instance ``number`` said with this phrase."""
        return [line for line in self.log(number).read_text().splitlines() if phrase in line]

    def expect_said(self, number: int, phrase: str) -> None:
        """Wait until instance ``number`` has said so."""
        until(lambda: self.said(number, phrase), f"instance {number} did not say {phrase!r}")

    def state_dir(self, number: int) -> Path:
        return self.path / f"instance-{number}"

    def kill(self, number: int) -> None:
        """SIGKILL: no chance to clean up."""
        process = self.instances.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def send(self, count: int, rng: random.Random) -> None:
        """Produce clicks, in order."""
        clicks = [
            (f"user-{rng.randrange(USERS)}", f"page-{rng.randrange(PAGES)}") for _ in range(count)
        ]
        self.producer.produce(
            [
                ProducedRecord(
                    f"{self.prefix}-clicks",
                    None,
                    user.encode(),
                    page.encode(),
                    len(self.sent) + i + 1,
                )
                for i, (user, page) in enumerate(clicks)
            ]
        )
        self.producer.flush()
        self.sent += clicks

    def outputs(self, topic: str, expected: int) -> dict[str, list[int]]:
        """Committed outputs per key, once there are as many as expected (and a moment after)."""
        name = f"{self.prefix}-{topic}"
        partitions = [TopicPartition(name, p) for p in range(PARTITIONS)]
        reader = self.cluster.log_consumer()
        reader.assign(dict.fromkeys(partitions, 0))
        found: dict[str, list[int]] = defaultdict(list)

        def read() -> int:
            for records in reader.poll(10_000, 0.2).records.values():
                for record in records:
                    found[record.key().decode()].append(int.from_bytes(record.value(), "big"))
            return sum(map(len, found.values()))

        until(lambda: read() >= expected, lambda: f"only {read()} of {expected} outputs on {name}")
        for _ in range(5):  # anything beyond what is expected would be a duplicate
            read()
        reader.close()
        return found

    def check(self) -> None:
        """Compare outputs and stores with what plain counting gives."""
        users = Counter(user for user, _ in self.sent)
        pages = Counter(page for _, page in self.sent)

        per_user = self.outputs("per-user", len(self.sent))
        per_page = self.outputs("per-page", len(self.sent))

        assert per_user == {user: list(range(1, n + 1)) for user, n in users.items()}
        assert {page: counts[-1] for page, counts in per_page.items()} == dict(pages)
        assert per_page == {page: list(range(1, n + 1)) for page, n in pages.items()}
        self.stop()
        assert self.stores() == {"per-user": dict(users), "per-page": dict(pages)}

    def stop(self) -> None:
        """SIGTERM every instance once it runs; each must end cleanly.

        One that has just begun does not know the signal yet, and is ended by it.
        """
        for number, process in self.instances.items():
            self._expect_to_run(number)
            process.terminate()
        for number, process in self.instances.items():
            status = process.wait(PATIENCE_S)
            assert status == 0, f"instance {number} ended with {status}: {self._life(number)}"
        self.instances.clear()

    def _expect_to_run(self, number: int) -> None:
        until(lambda: " it is running" in self._life(number), lambda: self._life(number))

    def _life(self, number: int) -> str:
        """What an instance has said since it was started last."""
        return self.log(number).read_bytes()[self._born[number] :].decode()[-4_000:]

    def stores(self) -> dict[str, dict[str, int]]:
        """All rows, read through one instance that owns everything."""
        with application(self.bootstrap, self.prefix, self.state_dir(0)) as app:
            # It gets everything at once, or piece by piece where others have just gone.
            everything = ["running"] * 2 * PARTITIONS
            until(lambda: list(app.tasks().values()) == everything, lambda: f"{app.tasks()}")
            return {
                name: {key: row.value for key, row in app.store(name).all()}
                for name in ("per-user", "per-page")
            }


@contextmanager
def running(bootstrap: str, prefix: str, path: Path) -> Iterator[Scenario]:
    """A scenario whose instances are gone at the end, however it ends."""
    made = Scenario(bootstrap, prefix, path)
    try:
        yield made
    finally:
        for process in made.instances.values():
            process.kill()
        made.producer.close()
