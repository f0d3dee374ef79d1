"""What happens in a run, in order, and what each step cost."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.elastic.fleet import Fleet
from tests.campaigns.elastic.flow import COMMIT_INTERVAL_MS
from tests.campaigns.elastic.jvm import JvmFleet
from tests.campaigns.elastic.load import TOPIC
from tests.campaigns.elastic.watcher import PARTITIONS, Watcher
from tests.campaigns.toolkit.process import start_module
from tests.performance.ratios import percentile
from tests.performance.topics import Topics

SESSION_TIMEOUT_MS = 6_000
BROKER = {
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
    # as brokers have it by default: it is a part of what a move takes
    "group.consumer.assignment.interval.ms": "1000",
    "group.streams.assignment.interval.ms": "1000",
}
#: how long it is watched after a step
_AFTER_S = 3.0
#: a step in which nothing moves: what a pause is here anyway, between two commits
NOTHING = "nothing"
#: for so long after its start a broker compiles what it runs: all of a core, a third of one later
_WARMING_UP_S = 60.0
_LOADED_S = 300.0
_DRAINED_S = 120.0


@dataclass
class Move:
    """What a step cost."""

    name: str
    seconds: float
    moved: int
    pause_stay_ms: float
    pause_move_ms: float
    promoted: int
    restored: list[int]

    @property
    def line(self) -> str:
        """A row of the table."""
        stay, move = f"{self.pause_stay_ms:8.0f}", f"{self.pause_move_ms:8.0f}"
        most = max(self.restored, default=0)
        return (
            f"{self.name:<26} {self.seconds:6.1f} {self.moved:6d} {stay} {move}"
            f" {self.promoted:8d} {most:12,d}"
        )


HEAD = (
    f"{'step':<26} {'s':>6} {'moved':>6} {'stay ms':>8} {'move ms':>8} {'promoted':>8}"
    f" {'replayed max':>12}"
)


@dataclass
class Findings:
    """Of a run; times in milliseconds, of failovers beyond the session time-out."""

    moves: list[Move] = field(default_factory=list)
    failover_standby_ms: list[float] = field(default_factory=list)
    failover_cold_ms: list[float] = field(default_factory=list)
    kafka_streams_failover_ms: list[float] = field(default_factory=list)
    lost: int = 0
    duplicated: int = 0

    def figures(self) -> dict[str, float | None]:
        """The last line."""
        still = [m.pause_stay_ms for m in self.moves if m.name == NOTHING]
        moves = [m for m in self.moves if m.name != NOTHING]
        stays = [m.pause_stay_ms for m in moves if m.moved < PARTITIONS]
        return {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "pause_still_ms_max": round(max(still, default=0)),
            "pause_stay_ms_max": round(max(stays, default=0)),
            "pause_move_ms_max": round(max((m.pause_move_ms for m in moves), default=0)),
            "failover_standby_ms_p95": _p95(self.failover_standby_ms),
            "failover_cold_ms_p95": _p95(self.failover_cold_ms),
            "kafka_streams_failover_ms_p95": _p95(self.kafka_streams_failover_ms),
        }


def _p95(values: list[float]) -> float | None:
    return round(percentile(sorted(values), 0.95)) if values else None


class Story:
    """A broker, a load, and instances that come and go. ``report`` is given each line."""

    def __init__(
        self, path: Path, keys: int, per_second: int, report: Callable[[str], None]
    ) -> None:
        self._path, self._keys, self._report = path, keys, report
        self._closing = ExitStack()
        broker = LocalBroker.start(data=path / "broker", heap="768m", properties=BROKER)
        self._closing.callback(broker.stop)
        self._bootstrap = broker.bootstrap
        self._topics = Topics(self._bootstrap, PARTITIONS)
        self._topics.create(TOPIC)
        self._topics.create("app-out")
        self._per_second = per_second
        self._load = self._loading()
        self._watcher = Watcher(self._bootstrap, "app-out")
        self._closing.callback(self._watcher.close)
        self.fleet = Fleet(self._bootstrap, "app", path / "ours")
        self._closing.callback(self.fleet.close)
        self.findings = Findings()

    def _loading(self, *options: str) -> subprocess.Popen[str]:
        load = start_module(
            "tests.campaigns.elastic.load",
            *(self._bootstrap, self._keys, self._per_second, *options),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._closing.callback(load.kill)
        return load

    def close(self) -> None:
        """End everything."""
        self._closing.close()

    # ------------------------------------------------------------------ our part

    def run(self, kills: int) -> None:
        """All of it, but for the JVM's part."""
        fleet = self.fleet
        assert self._load.stdout is not None
        self._report(self._load.stdout.readline().strip() + f": {self._keys:,} keys")
        fleet.start(0)
        if not self._watcher.wait_for(self._keys, _LOADED_S):
            raise TimeoutError(f"only {self._watcher.outputs} outputs")
        self._catch_up()
        time.sleep(_WARMING_UP_S)
        self._report(HEAD)
        still_s = time.time()
        with self._move(NOTHING):
            time.sleep(_AFTER_S)
        every_ms = self._watcher.every_ms(still_s, time.time())
        self._report(f"    outputs of a partition come every {every_ms:.0f} ms")
        for name, started, stopped in (
            ("1 -> 2", (1,), ()),
            ("2 -> 4", (2, 3), ()),
            ("4 -> 3", (), (3,)),
            ("3 -> 1", (), (1, 2)),
            ("1 -> 3", (1, 2), ()),
        ):
            with self._move(name):
                fleet.start(*started)
                fleet.stop(*stopped)
        for _ in range(kills):
            self._kill("kill -9, with standbys", self.findings.failover_standby_ms)
        self._restart(standbys=0, is_static=False)
        self._kill("kill -9, cold", self.findings.failover_cold_ms)
        self._restart(standbys=1, is_static=True)
        for number in (0, 1, 2):
            with self._move(f"static restart of {number}"):
                fleet.stop(number)
                fleet.start(number)

    @contextmanager
    def _move(self, name: str) -> Iterator[None]:
        """Measures what happens inside, and until it is settled again."""
        since_s = time.time()
        yield
        self.fleet.settle()
        settled_s = time.time()
        time.sleep(_AFTER_S)
        moved = self.fleet.moved(since_s)
        until_s = time.time() - 0.2
        pauses = [self._watcher.pause_ms(p, since_s, until_s) for p in range(PARTITIONS)]
        found = Move(
            name,
            settled_s - since_s,
            len(moved),
            max((pauses[p] for p in range(PARTITIONS) if p not in moved), default=0.0),
            max((pauses[p] for p in moved), default=0.0),
            self.fleet.promoted(since_s),
            self.fleet.restored(since_s),
        )
        self.findings.moves.append(found)
        self._report(found.line)
        if self.fleet.explains:
            self._explain([p for p in range(PARTITIONS) if p not in moved], since_s, until_s)

    def _explain(self, stayed: list[int], since_s: float, until_s: float) -> None:
        """What the longest pause of a task that stayed was made of."""
        if not stayed:
            return
        spans = {p: self._watcher.pause(p, since_s, until_s) for p in stayed}
        partition = max(spans, key=lambda p: spans[p][1] - spans[p][0])
        start_s, end_s = spans[partition]
        # An output is seen after it is committed: what held it up began a commit earlier.
        began_s = start_s - COMMIT_INTERVAL_MS / 1_000
        for number in self.fleet.processes:
            if f"0_{partition}" in self.fleet.told(number).tasks:
                told = self.fleet.causes(number, began_s, end_s)
                at_s = start_s - since_s
                self._report(f"    task 0_{partition} of {number}, {at_s:.1f} s after: {told}")
        for line in self.fleet.lines("the transaction is aborted", since_s):
            self._report(f"    {line.at_s - since_s:.1f} s after, {line.instance}: {line.text}")

    def _kill(self, name: str, found: list[float]) -> None:
        """One of three, and what its partitions had to wait for; then it is back."""
        victim = max(self.fleet.processes)
        orphans = [int(task.rpartition("_")[2]) for task in self.fleet.told(victim).tasks]
        killed_s = time.time()
        self.fleet.kill(victim)
        self.fleet.wait_until(
            lambda: self._have_gone_on(orphans, killed_s), "the orphans have no outputs"
        )
        time.sleep(_AFTER_S)
        restored = self.fleet.restored(killed_s)
        waited = [self._watcher.first_after_ms(p, killed_s) for p in orphans]
        beyond = [each - SESSION_TIMEOUT_MS for each in waited]
        found += beyond
        self._report(
            f"{name}: {len(orphans)} partitions, first output after"
            f" {[round(each) for each in waited]} ms; {self.fleet.promoted(killed_s)} promoted,"
            f" records replayed {restored}"
        )
        self.fleet.start(victim)
        self.fleet.settle()
        time.sleep(_AFTER_S)

    def _have_gone_on(self, partitions: list[int], killed_s: float) -> bool:
        newest = [self._watcher.arrivals[p][-1] for p in partitions]
        return all(at > killed_s + SESSION_TIMEOUT_MS / 2_000 for at in newest)

    def _restart(self, *, standbys: int, is_static: bool) -> None:
        """Three instances with other settings, from empty directories."""
        self.fleet.stop(*self.fleet.processes)
        for state in (self._path / "ours").glob("instance-*/state"):
            shutil.rmtree(state)
        self.fleet.standbys, self.fleet.is_static = standbys, is_static
        self.fleet.start(0, 1, 2)
        self.fleet.settle()
        self._catch_up()

    def _catch_up(self) -> None:
        """Wait until outputs are no more than a second's load behind."""
        for _ in range(600):
            if self._topics.end(TOPIC) - self._watcher.outputs < 5_000:
                break
            time.sleep(0.2)
        time.sleep(_AFTER_S)

    def finish(self) -> None:
        """No more load; everything must come out, once."""
        self._load.terminate()
        written, _ = self._load.communicate(timeout=60)
        expected = int(written.split()[-1])
        self._watcher.wait_for(expected, _DRAINED_S)
        time.sleep(1)
        missing = expected - self._watcher.outputs
        self.findings.lost = self._watcher.lost + max(0, missing)
        self.findings.duplicated = self._watcher.duplicated
        self._report(f"{expected:,} records, {self._watcher.outputs:,} outputs")
        self.fleet.stop(*self.fleet.processes)

    # ------------------------------------------------------------------ the JVM's part

    def run_jvm(self) -> None:
        """The same of Kafka Streams: three instances with standbys, one dies."""
        self._loading("--steady")
        self._topics.create("jvm-out")
        watcher = Watcher(self._bootstrap, "jvm-out")
        jvm = JvmFleet(self._bootstrap, "jvm", self._path / "jvm", SESSION_TIMEOUT_MS)
        try:
            jvm.start(0, 1, 2)
            for _ in range(1_200):
                behind = self._topics.end(TOPIC) - watcher.outputs
                if jvm.are_running() and behind < 5_000:
                    break
                time.sleep(0.25)
            time.sleep(15)  # its standbys follow
            killed_s = time.time()
            jvm.kill(2)
            time.sleep(SESSION_TIMEOUT_MS / 1_000 + 20)
            waited = [watcher.first_after_ms(p, killed_s) for p in range(PARTITIONS)]
            orphans = [each for each in waited if each > SESSION_TIMEOUT_MS / 2]
            self.findings.kafka_streams_failover_ms += [
                each - SESSION_TIMEOUT_MS for each in orphans
            ]
            self._report(
                f"kafka-streams, kill -9: {len(orphans)} partitions, first output after"
                f" {[round(each) for each in orphans]} ms"
            )
        finally:
            jvm.close()
            watcher.close()
