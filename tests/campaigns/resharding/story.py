"""An application runs on 4 partitions, is moved to 6 by processes that die, and goes on."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from logstate.admin.in_flight import check_is_drained
from logstate.admin.logs import KafkaLogs
from logstate.app.application import Application
from logstate.contracts.changelog_keys import WINDOW
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import StoreUnavailableError, UpgradeError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import log_bounds, log_topics, read_partition
from tests.campaigns.resharding.flow import WINDOW_MS, Click, Model, application
from tests.campaigns.toolkit.process import run_module
from tests.patience import PATIENCE_S, until

BEFORE, AFTER = 4, 6
_STORES = ("per-user", "per-minute", "calm-store", "closed", "sessions", "per-page")


def deaths(prefix: str, count: int) -> list[str]:
    """Steps at which an attempt dies, one attempt each; those behind the handover come last."""
    before = ["mark the application as being moved", "commit the handover"]
    after = ["handed over", "forget the old topics"]
    others = ["wait for open transactions", "look for records in flight", "make the topics"]
    others += ["delete the topics of an earlier attempt", "hand over", "send the offsets"]
    others += [f"copy {prefix}-{s}-changelog-{p}" for s in _STORES for p in range(BEFORE)]
    others += [f"copy {prefix}-latest-changelog"]  # versions come of all partitions together
    wanted = max(0, count - len(before) - len(after))
    some = others[: wanted // 2]
    rest = others[wanted // 2 :]
    some += [rest[at * len(rest) // (wanted - len(some))] for at in range(wanted - len(some))]
    return [before[0], *some, before[1], *after][:count]


@dataclass
class Story:
    """One application on one broker."""

    bootstrap: str
    prefix: str
    path: Path
    users: int
    model: Model = field(default_factory=Model)
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.inputs = f"{self.prefix}.clicks"
        self.settings = {"bootstrap.servers": self.bootstrap}
        self.cluster = KafkaCluster(self.bootstrap)
        self.admin = self.cluster.admin()
        outputs = [NewTopic(f"{self.prefix}-{name}", 1, 1, {}) for name in ("calm", "closed")]
        self.admin.create_topics([NewTopic(self.inputs, BEFORE, 1, {}), *outputs])
        self.random = random.Random(17)

    # ------------------------------------------------------------------ the input

    def clicks(self, count: int) -> Iterator[Click]:
        """Of users by chance; time goes on so that windows close on the way."""
        for _ in range(count):
            self.now_ms += 5 * WINDOW_MS // count + 1
            user = f"user-{self.random.randrange(self.users)}"
            yield Click(user, f"page-{self.random.randrange(500)}", self.now_ms)

    def all_users(self) -> Iterator[Click]:
        """One click of each."""
        for number in range(self.users):
            self.now_ms += 1
            yield Click(f"user-{number}", f"page-{number % 500}", self.now_ms)

    def send(self, clicks: Iterable[Click]) -> None:
        """Write clicks to the input, and note them."""
        sent = list(clicks)
        producer = self.cluster.plain_producer()
        try:
            for start in range(0, len(sent), 50_000):
                producer.produce(
                    [
                        ProducedRecord(self.inputs, None, user.encode(), page.encode(), time_ms)
                        for user, page, time_ms in sent[start : start + 50_000]
                    ]
                )
            producer.flush()
        finally:
            producer.close()
        self.model.add(sent)

    # ------------------------------------------------------------------ the application

    def app(self) -> Application:
        return application(self.bootstrap, self.prefix, self.inputs, self.path / "state")

    def run(self) -> None:
        """Until all is processed; what the stores hold then is compared with the model."""
        with self.app() as app:
            self._until_all_is_processed()
            until(lambda: not self._differences(app), lambda: f"{self._differences(app)}")

    def _differences(self, app: Application) -> list[str]:
        try:
            return self.model.differences(app)
        except StoreUnavailableError:
            return ["not readable yet"]

    def _until_all_is_processed(self) -> None:
        until(
            lambda: not self._behind() and self._is_drained(),
            lambda: f"{self._behind()} records are not processed",
        )

    def _behind(self) -> int:
        count = log_topics(self.settings, [self.inputs])[self.inputs].partitions
        inputs = [TopicPartition(self.inputs, n) for n in range(count)]
        committed = committed_offsets(self.settings, self.prefix, inputs)
        bounds = log_bounds(self.settings, inputs)
        done = {tp: committed[tp].offset or 0 if tp in committed else 0 for tp in inputs}
        return sum(bounds[tp].end - done[tp] for tp in inputs)

    def _is_drained(self) -> bool:
        internal = [t for t in self.admin.topic_names() if t.startswith(f"{self.prefix}-")]
        for topic in (name for name in internal if name.endswith("-repartition")):
            count = log_topics(self.settings, [topic])[topic].partitions
            partitions = [TopicPartition(topic, n) for n in range(count)]
            committed = committed_offsets(self.settings, self.prefix, partitions)
            try:
                check_is_drained(KafkaLogs(self.settings), partitions, committed)
            except UpgradeError:
                return False
        return True

    # ------------------------------------------------------------------ the move

    def extend(self) -> None:
        """Give the input its new partitions."""
        admin = AdminClient(self.settings)
        for future in admin.create_partitions([NewPartitions(self.inputs, AFTER)]).values():
            future.result(PATIENCE_S)
        until(lambda: log_topics(self.settings, [self.inputs])[self.inputs].partitions == AFTER)

    def attempt(self, die_at: str = "") -> subprocess.CompletedProcess[str]:
        """One process that moves the state, and dies at a step."""
        return run_module(
            "tests.campaigns.resharding.attempt",
            *(self.bootstrap, self.prefix, self.inputs, AFTER, "--die-at", die_at),
        )

    def move(self, steps: Sequence[str]) -> int:
        """Attempts that die, one at each step, and one that does not; how many were killed."""
        killed = 0
        for step in steps:
            ended = self.attempt(step)
            assert ended.returncode in (0, -9), ended.stderr
            assert ended.returncode == -9, f"it did not come to {step!r}: {ended.stdout}"
            killed += 1
        last = self.attempt()
        assert last.returncode == 0, last.stderr
        return killed

    # ------------------------------------------------------------------ results

    def final_results(self, name: str) -> Counter[tuple[str, int, int]]:
        """(user, window, count) of every final result, as often as it was sent."""
        found: Counter[tuple[str, int, int]] = Counter()
        output = TopicPartition(f"{self.prefix}-{name}", 0)
        bounds = log_bounds(self.settings, [output])[output]
        for batch in read_partition(self.settings, output, start=0, end=bounds.stable_end):
            for record in batch:
                raw: bytes = record.key()
                # A window as a key on a topic has no sequence number behind its start.
                start = WINDOW.expiry_time(raw + bytes(4))
                found[raw[:-8].decode(), start, int.from_bytes(record.value(), "big")] += 1
        return found

    def expected_results(self, before_ms: int) -> Counter[tuple[str, int, int]]:
        """Each window once that ended before a time."""
        return Counter(
            {
                (user, start, count): 1
                for (user, start), count in self.model.per_minute.items()
                if start + WINDOW_MS <= before_ms
            }
        )


def tell(story: Story, *, records: int, kills: int) -> dict[str, int]:
    """The whole story; raises AssertionError where it goes another way. Figures for the report."""
    story.send(story.all_users())
    story.send(story.clicks(records))
    story.run()
    story.extend()
    began = time.monotonic()
    killed = story.move(deaths(story.prefix, kills))
    seconds = time.monotonic() - began
    story.send(story.clicks(records))
    story.now_ms += 10 * WINDOW_MS
    last_ms = story.now_ms
    # Every partition comes so far that all before is closed.
    story.send(story.all_users())
    story.run()
    closed = story.expected_results(last_ms)
    for name in ("calm", "closed"):
        sent = {key: n for key, n in story.final_results(name).items() if key[1] < last_ms}
        complete = {key: n for key, n in sent.items() if key[1] + WINDOW_MS <= last_ms}
        assert complete == closed, _difference(name, complete, closed)
    return {
        "killed": killed,
        "keys": story.users,
        "total": story.model.per_user.total(),
        "final_results": len(closed),
        "move_seconds": round(seconds),
    }


def _difference(
    name: str, sent: dict[tuple[str, int, int], int], wanted: Counter[tuple[str, int, int]]
) -> str:
    twice = [key for key, n in sent.items() if n > 1]
    missing = [key for key in wanted if key not in sent]
    strange = [key for key in sent if key not in wanted]
    return (
        f"{name}: {len(twice)} sent twice {twice[:3]}, {len(missing)} missing {missing[:3]},"
        f" {len(strange)} strange {strange[:3]}"
    )
