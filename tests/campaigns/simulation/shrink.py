"""Making a failing schedule small: leave out every fault that is not needed for the failure."""

from __future__ import annotations

from logstate.testing.simulation.swarm import without
from tests.campaigns.simulation.campaign import Outcome, run_swarm
from tests.campaigns.simulation.reference import Reference
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


def shrink(seed: int) -> tuple[set[int], Outcome]:
    """Indices of the faults that can be left out, and the failure that remains."""
    reference = Reference()
    dropped: set[int] = set()
    outcome = run_swarm(draw(seed), reference)
    assert outcome.failure is not None, f"seed {seed} does not fail"
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for index in range(len(draw(seed).faults)):
            if index in dropped:
                continue
            candidate = run_swarm(without(draw(seed), {*dropped, index}), reference)
            if candidate.failure is not None:
                dropped.add(index)
                outcome = candidate
                is_smaller = True
    return dropped, outcome


def replay_command(seed: int, dropped: set[int]) -> str:
    """What to type to see it again."""
    left_out = f" --without {','.join(map(str, sorted(dropped)))}" if dropped else ""
    return f"python -m tests.campaigns.simulation --seed {seed}{left_out}"


def replay(seed: int, dropped: set[int]) -> list[str]:
    """Every call of a schedule, as far as it comes, and how it ended."""
    swarm = without(draw(seed), dropped)
    schedule = Schedule(swarm)
    schedule.log = [str(swarm)]
    outcome = run_swarm(swarm, Reference(), schedule)
    return [*schedule.log, outcome.details or "every promise held"]
