"""One run: start everything, do the faults of a seed, calm down, compare."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from logstate.contracts.clients import NewTopic
from logstate.kafka.cluster import KafkaCluster
from tests.campaigns.chaos.brokers import OneBroker, ThreeBrokers
from tests.campaigns.chaos.environment import brokers_that_start_fast, open_transactions
from tests.campaigns.chaos.feeder import OrderFeeder
from tests.campaigns.chaos.flow import INPUTS, OUTPUTS, PARTITIONS, application
from tests.campaigns.chaos.logs import Counting, read_topic
from tests.campaigns.chaos.oracle import Expected, Verdict, expected, judge
from tests.campaigns.chaos.schedule import Event, events
from tests.campaigns.chaos.workers import Workers
from tests.patience import until

#: after the last fault everything must have been processed within this time
CALM_LIMIT_S = 300.0
#: before each fault the workers must have written something since the last one, if it takes no
#: longer than this: faults without work between them prove little
_PROGRESS_LIMIT_S = 8.0
_PROGRESS_RECORDS = 100
#: words in the workers' logs that prove a path was taken
_PATHS = {
    "aborts": "the transaction is aborted and its records are replayed",
    "rebuilt stores": "its local state is rebuilt",
    "restores": ": restored ",
    "partitions lost": "partitions lost:",
    "replaced producers": "committing took long",
    "promotions": "its standby is promoted",
    "fenced dead": "is fenced:",
}


@dataclass
class Outcome:
    """What a run found."""

    kills: int
    lost: int
    duplicated: int
    client_errors: list[str]
    lines: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.duplicated or self.client_errors)

    @property
    def summary(self) -> str:
        """The last line of a run."""
        return f"{self.kills} kills, {self.lost} lost, {self.duplicated} duplicated"


class Campaign:
    """See the module. ``report`` gets one line per fault."""

    def __init__(
        self,
        kills: int,
        seed: int,
        *,
        workers: int = 3,
        standbys: int = 0,
        per_second: int = 300,
        protocol: str = "consumer",
        brokers: int = 1,
        only: Sequence[str] | None = None,
        path: Path,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        rng = random.Random(seed)
        self._prefix = f"chaos-{seed}"
        self._report = report
        self._protocol = protocol
        self._path = path
        self._without_progress = 0
        self._closing = ExitStack()
        self._closing.enter_context(brokers_that_start_fast())
        self._brokers = OneBroker(path, rng) if brokers == 1 else ThreeBrokers(rng)
        self._closing.callback(self._brokers.close)
        weights = self._brokers.weights
        chosen = {kind: share for kind, share in weights.items() if not only or kind in only}
        self._events = events(seed, kills, workers, chosen)
        bootstrap = self._bootstrap = self._brokers.bootstrap
        self._cluster = KafkaCluster(bootstrap)
        self._workers = Workers(workers, bootstrap, self._prefix, path, protocol, standbys)
        self._closing.callback(self._workers.close)
        self._feeder = OrderFeeder(bootstrap, self._prefix, seed, per_second)

    def close(self) -> None:
        """Stop everything."""
        self._closing.close()

    def run(self) -> Outcome:
        """Do it."""
        admin = self._cluster.admin()
        names = [f"{self._prefix}-{topic}" for topic in (*INPUTS, *OUTPUTS)]
        admin.create_topics(
            [NewTopic(name, PARTITIONS, self._brokers.replicas, {}) for name in names]
        )
        admin.close()
        for number in range(len(self._workers.disks)):
            self._workers.start(number)
        self._feeder.start()
        self._pause(3.0)
        started = time.monotonic()
        self._counting = Counting(self._cluster, [f"{self._prefix}-running"])
        for number, event in enumerate(self._events, 1):
            self._wait_for_progress()
            self._pause(event.after_s)
            self._report(
                f"{time.monotonic() - started:6.1f} s  {number:3d} {event.kind}"
                f" {'workers ' + str(list(event.victims)) if _has_victims(event) else ''}"
                f" for {event.lasts_s:.1f} s"
            )
            hit = self._do(event)
            if hit:
                self._report(f"{'':13}{hit}")
        self._counting.close()
        self._feeder.stop()
        return self._verify()

    # ------------------------------------------------------------------ faults

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self._workers.revive()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.2, left))

    def _wait_for_progress(self) -> None:
        topic, deadline = f"{self._prefix}-running", time.monotonic() + _PROGRESS_LIMIT_S
        self._counting.poll()
        before = self._counting.counts[topic]
        while self._counting.counts[topic] < before + _PROGRESS_RECORDS:
            if time.monotonic() > deadline:
                self._without_progress += 1
                return
            self._counting.poll()
            self._workers.revive()

    def _do(self, event: Event) -> str:
        """Returns what was hit, where the event does not say."""
        kind, workers = event.kind, self._workers
        if kind.startswith("sigkill"):
            for victim in event.victims:
                workers.kill(victim)
                if kind == "sigkill_disk_lost":
                    workers.disks[victim].lose_everything()
            self._pause(event.lasts_s)
            for victim in event.victims:
                workers.start(victim)
        elif kind == "zombie":
            (victim,) = event.victims
            workers.send(victim, signal.SIGSTOP)
            self._pause(event.lasts_s)
            workers.send(victim, signal.SIGCONT)
        elif kind == "sigterm":
            (victim,) = event.victims
            workers.terminate(victim)
            self._pause(event.lasts_s)
            workers.start(victim)
        elif kind == "disk_full":
            self._fill_disk(event)
        else:
            return self._brokers.harm(event, self._pause)
        return ""

    def _fill_disk(self, event: Event) -> None:
        (victim,) = event.victims
        disk, pid = self._workers.disks[victim], self._workers.pid(victim)
        if pid is not None:
            disk.fill(pid)
            time.sleep(event.lasts_s)
            disk.free(self._workers.pid(victim))

    # ------------------------------------------------------------------ the end

    def _verify(self) -> Outcome:
        inputs = {t: read_topic(self._cluster, f"{self._prefix}-{t}") for t in INPUTS}
        wanted = expected(inputs["orders"], inputs["payments"])
        seconds = self._wait_for(wanted)
        for number in list(self._workers.processes):
            self._workers.terminate(number)
        verdict = Verdict()
        outputs = {t: read_topic(self._cluster, f"{self._prefix}-{t}") for t in OUTPUTS}
        judge(wanted, outputs, verdict)
        self._check_stores("surviving disk", self._workers.disks[0].path, wanted, verdict)
        with tempfile.TemporaryDirectory() as empty:
            self._check_stores("changelogs alone", Path(empty), wanted, verdict)
        return Outcome(
            len(self._events),
            verdict.lost,
            verdict.duplicated,
            self._workers.client_errors,
            [*self._facts(inputs, wanted, seconds), *self._observed(verdict)],
        )

    def _wait_for(self, wanted: Expected) -> float:
        """Until all outputs are there, or too long; returns the seconds."""
        counting = Counting(self._cluster, [f"{self._prefix}-{topic}" for topic in OUTPUTS])
        started = time.monotonic()
        need = {f"{self._prefix}-{topic}": count for topic, count in wanted.count.items()}
        while any(counting.counts[topic] < count for topic, count in need.items()):
            counting.poll()
            self._workers.revive()
            if time.monotonic() - started > CALM_LIMIT_S:
                self._workers.client_errors.append(
                    f"not everything was processed within {CALM_LIMIT_S:.0f} s:"
                    f" {counting.counts} of {need}; open transactions:"
                    f" {open_transactions(self._bootstrap)}"
                )
                for number in self._workers.processes:
                    self._workers.send(number, signal.SIGUSR1)
                break
        counting.close()
        return time.monotonic() - started

    def _check_stores(self, what: str, path: Path, wanted: Expected, verdict: Verdict) -> None:
        app = application(self._bootstrap, self._prefix, path, self._protocol)  # type: ignore[arg-type]
        with app:
            everything = ["running"] * 2 * PARTITIONS
            until(lambda: list(app.tasks().values()) == everything, lambda: f"{app.tasks()}")
            for name, rows in wanted.stores().items():
                found = {key: row.value for key, row in app.store(name).all()}
                verdict.compare_sets(
                    f"store {name}, {what}", Counter(rows.items()), Counter(found.items())
                )
            found = {
                f"{window.key}@{window.start_ms}": row.value
                for window, row in app.store("windows").all()
            }
        closed = {k: v for k, v in found.items() if k not in wanted.open_windows}
        still = {k: v for k, v in found.items() if k in wanted.open_windows}
        verdict.compare_sets(
            f"store windows, {what}", Counter(wanted.open_windows.items()), Counter(still.items())
        )
        kept = {k: wanted.windows.get(k, "none") for k in closed}
        verdict.compare_sets(
            f"closed windows, {what}", Counter(kept.items()), Counter(closed.items())
        )

    def _facts(self, inputs: object, wanted: Expected, seconds: float) -> list[str]:
        kinds = Counter(event.kind for event in self._events)
        return [
            "faults: " + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items())),
            f"disk full by {self._workers.disks[0].kind}",
            (
                f"orders {wanted.count['running']}, outputs {wanted.count}, late for their window"
                f" {wanted.late}; all processed {seconds:.1f} s after the last order"
            ),
            f"faults without progress since the last one: {self._without_progress}",
            (
                f"worker starts {self._workers.starts}, {self._brokers.told()}, "
                + ", ".join(f"{n} {self._workers.count_in_logs(w)}" for n, w in _PATHS.items())
            ),
        ]

    def _observed(self, verdict: Verdict) -> list[str]:
        return [
            *(f"a worker ended by itself ({n} times): {w}" for w, n in self._workers.exits.items()),
            f"compared {verdict.checked} values",
            *verdict.story,
            *self._workers.client_errors,
        ]


def _has_victims(event: Event) -> bool:
    return not event.kind.startswith(("network", "broker"))
