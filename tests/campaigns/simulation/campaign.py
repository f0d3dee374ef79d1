"""Running many seeds: outcomes, totals, and a hash that says whether two runs were the same."""

from __future__ import annotations

import gc
import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from logstate.testing.simulation.clock import take_cluster_apart
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.coverage import Coverage
from tests.campaigns.simulation.oracles import Oracles
from tests.campaigns.simulation.reference import Reference
from tests.campaigns.simulation.schedule import Schedule

#: every directory of every slot is examined in one schedule of so many
_DIRECTORIES_EVERY = 4
#: schedules between two garbage collections
_COLLECTED_EVERY = 20


@dataclass(frozen=True)
class Outcome:
    """How one schedule ended."""

    seed: int
    trace: str
    counters: Counter[str]
    #: None where every promise held
    failure: str | None
    details: str = ""


@dataclass
class Totals:
    """Outcomes of many schedules."""

    schedules: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    _hash: str = ""

    def add(self, outcome: Outcome) -> None:
        """One more, in the order of the seeds."""
        self.schedules += 1
        self.counters += outcome.counters
        self.coverage.add(outcome.counters)
        self._hash = hashlib.sha256(f"{self._hash}{outcome.trace}".encode()).hexdigest()
        if outcome.failure is not None:
            self.failures.append(outcome)

    @property
    def trace(self) -> str:
        """The same for the same seeds, on every machine."""
        return self._hash[:16]

    def summary(self) -> str:
        """The line that counts."""
        crashes = self.counters["crashes"]
        return f"{self.schedules} schedules, {crashes} crashes, {len(self.failures)} wrong"


def run_swarm(swarm: Swarm, reference: Reference, schedule: Schedule | None = None) -> Outcome:
    """Run one schedule (a prepared one, if given) and judge it."""
    schedule = schedule or Schedule(swarm)
    schedule.counters[f"schedules_of_{swarm.variant}"] += 1
    failure, details = None, ""
    try:
        schedule.run()
        if schedule.judge is not None:
            schedule.judge()
        else:
            every_directory = swarm.seed % _DIRECTORIES_EVERY == 0 or schedule.compares_directories
            Oracles(schedule, reference).check(every_directory=every_directory)
    except Exception as exc:  # noqa: BLE001  whatever escapes is what we are looking for
        failure = f"{type(exc).__name__}: {exc}"
        details = traceback.format_exc()
    outcome = Outcome(swarm.seed, _trace(schedule), schedule.counters, failure, details)
    take_cluster_apart(schedule.cluster)
    return outcome


def run_seeds(
    seeds: Iterable[int], make: Callable[[int], Schedule] = Schedule.of
) -> Iterable[Outcome]:
    """One after the other, with one reference; ``make`` makes the schedule of a seed."""
    reference = Reference()
    # The tests freeze all that they import: unfrozen, it would be searched at each collection.
    frozen_before = gc.get_freeze_count() > 0
    # Next to nothing of a schedule is left in cycles, and what is kept never becomes garbage in
    # them: looking for it all the time costs more than the run.
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        for count, seed in enumerate(seeds, 1):
            schedule = make(seed)
            yield run_swarm(schedule.swarm, reference, schedule)
            if count % _COLLECTED_EVERY == 0:
                gc.collect()
                gc.freeze()
    finally:
        if not frozen_before:
            gc.unfreeze()
        gc.enable()


def run_chunk(seeds: range, make: Callable[[int], Schedule] = Schedule.of) -> list[Outcome]:
    """Some of them in a process of their own, which finds this function in a module by name."""
    logging.disable(logging.CRITICAL)
    return list(run_seeds(seeds, make))


def _trace(schedule: Schedule) -> str:
    """What was called in which order, and every output."""
    digest = hashlib.sha256(f"{schedule.swarm.seed}:{schedule.trace}".encode())
    for topic in flow.OUTPUTS:
        for record in schedule.cluster.records(topic):
            digest.update(repr((record.key(), record.value(), record.timestamp())).encode())
    return digest.hexdigest()
