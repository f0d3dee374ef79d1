"""A crash at every step, and at every pair of steps, of a small scenario.

Two workers, one partition, a few records, everybody takes turns: without faults the run always
takes the same steps. Then it is run again for every step i, with the process that is about to make
step i (and, for the second half, has just made it) killed there; and for pairs of steps i < j,
where j counts on through the restart.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation import dataset
from tests.campaigns.simulation.oracles import Oracles
from tests.campaigns.simulation.reference import Reference
from tests.campaigns.simulation.schedule import Schedule

_WORKERS = 2
_TURNS_MAX = 2_000


class SteppedSchedule(Schedule):
    """Round robin, one step each; kills whoever is about to make one of the chosen steps."""

    def __init__(self, swarm: Swarm, crashes: Iterable[int]) -> None:
        inputs = dataset.inputs(3, partitions=1, orders=4, prices=1)
        super().__init__(swarm, partitions=1, inputs=inputs)
        self._crashes = set(crashes)
        self.steps = 0

    def _run(self) -> None:
        self.upstream.write()
        for slot in self.slots:
            slot.start()
        for turn in range(_TURNS_MAX):
            for slot in self.slots:
                self._one_step(slot)
            self._pass_time(2)
            if self.cluster.transactions.pending and turn % 3 == 0:
                self.cluster.deliver_marker()
            if turn % 8 == 7 and self._is_done():
                break
        self._crashes = set()
        self._run_without_faults(0)
        self._finish()

    def _one_step(self, slot: Slot) -> None:
        if not slot.is_running:
            slot.start()
            return
        if self.steps in self._crashes:
            slot.crash()
        else:
            slot.step()
        self.steps += 1


def scenario(guarantee: str, variant: str) -> Swarm:
    """The small scenario: short commits, delayed markers, everything else plain."""
    return Swarm(
        seed=0,
        variant=variant,
        guarantee="exactly_once" if guarantee == "exactly_once" else "at_least_once",
        changelog_writes="commit",
        group_protocol="consumer",
        in_memory=False,
        workers=_WORKERS,
        commit_interval_ms=10,
        checkpoint_interval_ms=20,
        checkpoint_rows_max=200_000,
        purge_interval_ms=40,
        fetch_records_max=3,
        delays_markers=True,
        buffers_sends=False,
        splits_assignments=False,
        background_looks_max=1,
        transaction_timeout_ms=10_000,
        session_timeout_ms=60,
        arrives_late=False,
        inputs_are_transactional=False,
        burst=1,
        turn_ms=2,
        arrival_rate=0.0,
        restart_turns=1,
        faults=(),
    )


def run_once(swarm: Swarm, crashes: Sequence[int], reference: Reference) -> SteppedSchedule:
    """One run with crashes at these steps; raises where a promise is broken."""
    schedule = SteppedSchedule(swarm, crashes)
    schedule.run()
    Oracles(schedule, reference).check(every_directory=True)
    return schedule


def print_systematic(pairs_max: int | None, only: str | None = None) -> int:
    """Run it for both guarantees, or one, and variants; returns the exit code."""
    reference = Reference()
    wrong = 0
    print("guarantee      variant   steps  singles    pairs  crashes    wrong        s")
    for guarantee in ("exactly_once", "at_least_once") if only is None else (only,):
        for variant in ("table", "streams"):
            wrong += _print_one(scenario(guarantee, variant), pairs_max, reference)
    return 1 if wrong else 0


def _print_one(swarm: Swarm, pairs_max: int | None, reference: Reference) -> int:
    started = time.monotonic()
    steps = run_once(swarm, (), reference).steps
    singles = [(i,) for i in range(steps)]
    pairs = list(combinations(range(steps), 2))
    if pairs_max is not None and len(pairs) > pairs_max:
        pairs = pairs[:: -(-len(pairs) // pairs_max)]
    counters: Counter[str] = Counter()
    failures = []
    for crashes in (*singles, *pairs):
        try:
            counters += run_once(swarm, crashes, reference).counters
        except Exception as exc:  # noqa: BLE001  whatever escapes is what we are looking for
            failures.append(f"crashes at {crashes}: {type(exc).__name__}: {exc}")
    elapsed_s = time.monotonic() - started
    print(
        f"{swarm.guarantee:14} {swarm.variant:8} {steps:6} {len(singles):8} {len(pairs):8}"
        f" {counters['crashes']:8} {len(failures):8} {elapsed_s:8.0f}",
        flush=True,
    )
    for failure in failures[:3]:
        print(f"    {failure}")
    return len(failures)
