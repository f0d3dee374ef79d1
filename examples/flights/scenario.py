"""Two instances: one is killed inside its transaction, the other takes over, the first returns."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.progress import Progress

from examples.flights import comparison
from examples.flights.app import topology
from examples.flights.comparison import Table
from examples.flights.instance import Status
from examples.flights.kill import Kill, kill_in_open_transaction
from examples.flights.loader import OUTPUT_TOPICS, PARTITIONS
from examples.flights.outputs import OutputAudit
from examples.flights.supervisor import Instance

_NAMES = ("a", "b")
# Without any new result for so long, what is missing counts as lost.
_STALL_S = 180.0
# So often must every instance have said that it did nothing, before the end is believed to be it.
_QUIET_REPORTS = 6


@dataclass(frozen=True)
class Survived:
    """What the instances did, and what they hold when everything is processed."""

    kill: Kill
    kills: int
    restored_records: int
    dropped_records: int
    carrier_hours: Table
    model_totals: Table


class Scenario:
    """Runs the story once. Close it in any case: it ends whatever still runs.

    ``is_killed`` is set when the victim is dead: flights must come until then, for without records
    there is no transaction to be killed in.
    """

    def __init__(
        self,
        bootstrap: str,
        application_id: str,
        directory: Path,
        audit: OutputAudit,
        progress: Progress,
    ) -> None:
        self._bootstrap = bootstrap
        self._application_id = application_id
        self._directory = directory
        self._audit = audit
        self._progress = progress
        self._bar = progress.add_task("results", total=audit.expected)
        self._all_tasks = len(topology().sub_topologies) * PARTITIONS
        self._running: dict[str, Instance] = {}
        self._started: list[Instance] = []
        self._loading: Future[None] | None = None
        self.is_killed = threading.Event()

    def start(self) -> None:
        """Start both instances and wait until they have shared the work between them."""
        for name in _NAMES:
            self._start(name)
        self._follow(
            lambda: (
                all(self._is_working(name) for name in _NAMES)
                and sum(self._running_tasks(name) for name in _NAMES) == self._all_tasks
            )
        )

    def run(
        self, chance: random.Random, loading: Future[None], on_restart: Callable[[], None]
    ) -> Survived:
        """From the first result to the last; ``on_restart`` is called when both run again."""
        self._loading = loading
        victim, survivor = chance.sample(_NAMES, 2)
        moment = int(self._audit.expected * chance.uniform(0.1, 0.35))
        try:
            self._follow(lambda: self._audit.records >= moment)
            kill = kill_in_open_transaction(
                self._running.pop(victim), self._bootstrap, OUTPUT_TOPICS, chance
            )
        finally:
            self.is_killed.set()
        restored_before = self._restored()
        self._say(
            f"killed {victim} after {self._audit.records:,} results: its transaction was "
            f"{kill.transaction.state}, {len(kill.transaction.partitions)} partitions written to"
        )
        self._follow(lambda: self._owns_everything(survivor))
        self._say(f"{survivor} has taken over everything")
        self._start(victim)
        self._follow(lambda: self._is_working(victim))
        self._say(f"{victim} is back")
        on_restart()
        self._follow_to_the_end()
        return self._survived(kill, restored_before)

    def stop(self) -> None:
        """End the instances in order."""
        for instance in self._running.values():
            instance.stop()

    def close(self) -> None:
        for instance in self._started:
            if instance.is_alive:
                instance.kill()

    def _start(self, name: str) -> None:
        state_dir = self._directory / name
        instance = Instance(name, self._bootstrap, self._application_id, state_dir)
        self._running[name] = instance
        self._started.append(instance)

    def _follow(self, is_reached: Callable[[], bool]) -> None:
        """Count results until the condition holds; give up when there is no progress any more."""
        last_s = time.monotonic()
        while not is_reached():
            if self._audit.read():
                last_s = time.monotonic()
            self._progress.update(self._bar, completed=self._audit.records)
            for instance in self._running.values():
                instance.check()
            if self._loading is not None and self._loading.done():
                self._loading.result()  # raises what went wrong
            if time.monotonic() - last_s > _STALL_S:
                said = [instance.status for instance in self._running.values()]
                raise TimeoutError(
                    f"{self._audit.records:,} of {self._audit.expected:,} results, and no further "
                    f"one within {_STALL_S:g} s. The instances say {said}."
                )

    def _follow_to_the_end(self) -> None:
        try:
            self._follow(lambda: self._audit.lost == 0)
        except TimeoutError as error:
            # Not the end of the demo: losing results is what it is there to measure.
            self._say(str(error))
        running = self._running.values()
        before = self._consumed()
        quiet_since = {one.name: one.reports for one in running}
        while any(one.reports - quiet_since[one.name] < _QUIET_REPORTS for one in running):
            self._audit.read()
            for one in running:
                one.check()
            if (consumed := self._consumed()) != before:
                before, quiet_since = consumed, {one.name: one.reports for one in running}

    def _survived(self, kill: Kill, restored_before: int) -> Survived:
        held = [
            instance.stores(self._directory / f"{name}.json")
            for name, instance in self._running.items()
        ]
        return Survived(
            kill=kill,
            kills=sum(each.was_killed for each in self._started),
            restored_records=self._restored() - restored_before,
            dropped_records=sum(status.dropped_records for status in self._statuses()),
            carrier_hours=comparison.carrier_hours(
                chain.from_iterable(rows.carrier_hours for rows in held)
            ),
            model_totals=comparison.model_totals(
                chain.from_iterable(rows.model_totals for rows in held)
            ),
        )

    def _owns_everything(self, name: str) -> bool:
        return self._running_tasks(name) == self._all_tasks

    def _is_working(self, name: str) -> bool:
        return self._running_tasks(name) > 0

    def _running_tasks(self, name: str) -> int:
        status = self._running[name].status
        return 0 if status is None else status.running_tasks

    def _statuses(self) -> list[Status]:
        """The last words of every instance so far, the killed one's too."""
        return [each.status for each in self._started if each.status is not None]

    def _consumed(self) -> int:
        return sum(status.consumed_records for status in self._statuses())

    def _restored(self) -> int:
        return sum(status.restored_records for status in self._statuses())

    def _say(self, what: str) -> None:
        self._progress.console.log(what)
