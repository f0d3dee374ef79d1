"""One run: in each round all windows close on idle inputs, and all clicks come again, late."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.raw_topic import create_topic
from tests.campaigns.idle_kills.kill_points import STEPS, Point, choose, is_killed
from tests.campaigns.toolkit.process import kill, start_module
from tests.patience import until

_USERS = [f"user-{number}" for number in range(12)]
_PAGES = [f"page-{number}" for number in range(3)]
_ROUND_MS = 10_000


class Mode(NamedTuple):
    """The processes of the application."""

    instances: int
    workers: int
    standbys: int


MODES = {"alone": Mode(1, 1, 0), "workers": Mode(1, 2, 0), "standbys": Mode(2, 1, 1)}


class Found(NamedTuple):
    """What a run has found."""

    kills: Counter[str]
    #: results that are missing or came more than once, by round and step
    wrong: list[str]


def every_step(times: int) -> list[tuple[str, str]]:
    """Return the kind and the step of each kill."""
    return [(kind, step) for kind, steps in STEPS.items() for step in steps for _ in range(times)]


class Run:
    """One application, its input and its results."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, mode: Mode) -> None:
        self._names = bootstrap, prefix, folder
        self._folder, self._mode = folder, mode
        self._topics = {kind: f"{prefix}-{kind}" for kind in ("clicks", "finals", "late")}
        for kind, topic in self._topics.items():
            create_topic(bootstrap, topic, partitions=2 if kind == "clicks" else 1)
        cluster = KafkaCluster(bootstrap)
        self._producer, self._reader = cluster.plain_producer(), cluster.log_consumer()
        self._outputs = {TopicPartition(self._topics[kind], 0): kind for kind in ("finals", "late")}
        self._reader.assign(dict.fromkeys(self._outputs, 0))
        self._found: dict[str, Counter[str]] = {"finals": Counter(), "late": Counter()}
        self._processes: dict[int, subprocess.Popen[Any]] = {}

    def kill_in(self, kills: Iterable[tuple[str, str]], report: Callable[[str], None]) -> Found:
        """Kill in each round at a step, and compare the results of the round."""
        found = Found(Counter(), [])
        for number, (kind, step) in enumerate(kills, 1):
            choose(self._folder, Point(number, kind, step))
            wrong = self._round(number, kind)
            if is_killed(self._folder, number):
                found.kills[f"{kind}: {step}"] += 1
            found.wrong.extend(f"round {number}, {kind}: {step}: {one}" for one in wrong)
            report(f"round {number}: {kind} before {step}, {wrong or 'correct'}")
        return found

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            kill(process)
        self._producer.close()
        self._reader.close()

    def _round(self, number: int, kind: str) -> list[str]:
        at_ms = number * _ROUND_MS
        finals = {f"{key}@{at_ms}" for key in _USERS + _PAGES}
        clicks = [(user, f"{_PAGES[at % 3]} {number}") for at, user in enumerate(_USERS)]
        late = Counter(f"per-user {user} {value}" for user, value in clicks)
        late += Counter(f"per-page {value.split()[0]} {value}" for _, value in clicks)
        self._start()
        self._send(clicks, at_ms + 7)
        self._wait_for("finals", len(finals) * number)
        if kind == "tick":
            self._wait_for_kill(number)
        self._send(clicks, at_ms + 7)
        self._wait_for("late", late.total() * number)
        if kind == "late":
            self._wait_for_kill(number)
        found = [
            f"{name}: {count} instead of {wanted[name]}"
            for results, wanted in (("finals", Counter(finals)), ("late", late))
            for name, count in sorted(self._found[results].items())
            if count != wanted[name] and self._is_of(name, number)
        ]
        missing = finals - self._found["finals"].keys()
        missing |= late.keys() - self._found["late"].keys()
        return found + [f"{name} is missing" for name in sorted(missing)]

    @staticmethod
    def _is_of(name: str, number: int) -> bool:
        return name.endswith((f"@{number * _ROUND_MS}", f" {number}"))

    def _wait_for_kill(self, number: int) -> None:
        """Let a step be reached that follows the results: the last ones of a commit."""
        with suppress(AssertionError):
            until(lambda: self._read() or is_killed(self._folder, number))
        choose(self._folder, None)

    def _start(self) -> None:
        """Start the processes that are not alive."""
        for number in range(self._mode.instances):
            process = self._processes.get(number)
            if process is None or process.poll() is not None:
                self._processes[number] = start_module(
                    "tests.campaigns.idle_kills.application",
                    *(*self._names, number, self._mode.workers, self._mode.standbys),
                    log=self._folder / f"instance-{number}.log",
                )

    def _send(self, clicks: Iterable[tuple[str, str]], at_ms: int) -> None:
        topic = self._topics["clicks"]
        for at, (user, value) in enumerate(clicks):
            record = ProducedRecord(topic, at % 2, user.encode(), value.encode(), at_ms, None)
            self._producer.produce([record])
        self._producer.flush()

    def _read(self) -> None:
        for partition, records in self._reader.poll(1_000, 0.1).records.items():
            kind = self._outputs[partition]
            for record in records:
                data = record.key() if kind == "finals" else record.value()
                self._found[kind][(data or b"").decode()] += 1

    def _wait_for(self, kind: str, total: int) -> None:
        """Read until there are so many results of a kind, of all rounds."""

        def are_there() -> bool:
            self._read()
            if self._mode.instances == 1:  # with standbys the others do the work first
                self._start()
            return self._found[kind].total() >= total

        until(are_there, lambda: f"{kind}: {self._found[kind].total()} of {total}")
