"""Reduce a failing schedule to a short one, and describe it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeVar

from logstate.testing.simulation.differences import Difference
from logstate.testing.simulation.swarm import ScheduledFault, Swarm
from logstate.testing.simulation.upstream import Input

T = TypeVar("T")

#: schedules that are run to make a story shorter
_TRIES_MAX = 300
#: records of a simple story, and turns after which its fault comes
FEW, _WAITS_MAX, _SEEDS = 3, 9, 3
_KINDS = {
    "crash": "is killed",
    "crash_at": "is killed in the call {step!r}, {carried}",
    "crash_in_write": "is killed in the middle of a write to its disk",
    "zombie": "is suspended for {amount} ms",
    "expel": "is thrown out of the group",
    "restart": "is stopped and started again",
    "lost_reply": "does not hear the answer to {step!r}, {carried}",
    "exit": "fails in {step!r} and is started again",
    "repeated_end": "ends a transaction by {step!r}, which reaches the brokers twice",
    "slow": "has a function that takes {amount} ms",
    "clean": "sees the brokers compact its changelogs",
    "rebalance": "moves its tasks: the group rebalances",
    "time_out": "sees its open transactions time out",
}


def shortest(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """As few of them as still fail; larger parts are left out before smaller ones."""
    kept, size, tries = list(items), len(items), 0
    while size >= 1 and tries < _TRIES_MAX:
        start = 0
        while start < len(kept) and tries < _TRIES_MAX:
            fewer = kept[:start] + kept[start + size :]
            tries += 1
            if fails(fewer):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept


def simple_stories(
    swarm: Swarm, inputs: Sequence[Input]
) -> Iterator[tuple[Swarm, Sequence[Input]]]:
    """One instance that is killed, at one time or another, and a few records, which anybody
    understands.
    """
    calm = replace(
        swarm,
        workers=1,
        commit_interval_ms=1,
        delays_markers=False,
        buffers_sends=False,
        splits_assignments=False,
        arrives_late=True,
        inputs_are_transactional=False,
        burst=40,
        turn_ms=10,
    )
    for count in range(1, min(FEW, len(inputs) - 1) + 1):
        for few in (inputs[:count], inputs[-count:]):
            for wait, seed in product(range(2, _WAITS_MAX), range(_SEEDS)):
                yield replace(calm, seed=seed, faults=(ScheduledFault(wait, "crash", 0),)), few


def report_of(
    seed: int,
    found: Difference,
    faults: Sequence[ScheduledFault],
    inputs: Sequence[Input],
    was: str,
) -> str:
    """Describe a failure for people, from the difference to its reproduction."""
    lines = [f"schedule {seed} does not end as the uninterrupted run does:", f"  {found.what}"]
    if found.operator is not None:
        where = "" if found.declared_at is None else f", declared at {found.declared_at},"
        lines.append(f"  operator {found.operator!r}{where} is not deterministic: {found.how}")
    lines.append(f"the shortest story ({was}):")
    lines += [f"  {_input(one)}" for one in inputs]
    lines += [f"  {number}. {_fault(one)}" for number, one in enumerate(faults, 1)]
    if not faults:
        lines.append("  and nothing goes wrong: the same records, once more, are enough")
    lines.append(f"again: simulate(topology, inputs, schedules=1, seed={seed})")
    return "\n".join(lines)


def _input(one: Input) -> str:
    return f"{one.topic}-{one.partition}: {one.key!r} {one.value!r} at {one.timestamp} ms"


def _fault(fault: ScheduledFault) -> str:
    carried = "which was carried out" if fault.is_carried_out else "which was not carried out"
    text = _KINDS[fault.kind].format(step=fault.step, amount=fault.amount, carried=carried)
    lost = {"tail": "; its disk loses the last writes", "everything": "; its disk is lost"}
    return f"after {fault.wait} turns instance {fault.slot} {text}{lost.get(fault.disk, '')}"
