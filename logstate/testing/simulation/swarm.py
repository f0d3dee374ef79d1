"""What varies between schedules: configuration, rates, and the faults that will happen.

Every seed draws its own subset (swarm testing), so that rare combinations occur. The faults are
drawn before the run: leaving one out changes nothing else, which is what makes shrinking work.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from logstate.contracts.worker_config import ChangelogWrites, Guarantee

#: calls of a worker at which a crash can be ordered; often where much hangs on the order
CRASH_STEPS = (
    *("flush", "group_metadata", "send_offsets", "commit") * 3,
    *("produce", "begin", "start", "poll") * 2,
    *("restore_assign", "restore_poll", "restore_position") * 3,
    *("committed", "end_offsets", "pause", "delete_records"),
    *("abort", "init_transactions", "flush_plain", "produce_plain"),
)
#: calls whose answer can get lost, with the errors a client reports then
LOST_REPLIES = {
    "send_offsets": ("abortable", "fenced", "retriable"),
    "commit": ("abortable", "fenced", "retriable"),
    "abort": ("abortable", "fenced", "retriable"),
    "flush": ("abortable", "fenced"),
    "produce": ("abortable", "fenced"),
    "begin": ("fenced",),
    "committed": ("retriable",),
    "poll": ("fenced", "retriable"),
    "start": ("retriable",),
    "init_transactions": ("broker", "retriable"),
}
#: faults besides crashes; those more often that end a transaction of a process that lives on
FAULTS = (
    *("lost_reply",) * 3,
    *("zombie", "expel", "time_out") * 2,
    *("repeated_end",) * 4,
    "rebalance",
    "restart",
    "slow",
    "clock_jump",
    "clean",
    "exit",
)
#: of the schedules that are of one of the further variants
_FURTHER_SHARE = 0.4
#: calls at which a process is suspended for long
FREEZE_STEPS = (
    *("start_offsets", "end_offsets") * 3,
    *("restore_poll", "start"),
    *("produce", "flush", "send_offsets", "commit"),
)
#: calls that fail for good while there may be much that is not committed
EXIT_STEPS = ("poll", "produce", "flush", "send_offsets", "end_offsets")


@dataclass(frozen=True)
class ScheduledFault:
    """Something that goes wrong, ``wait`` turns after the previous fault was over."""

    wait: int
    kind: str
    slot: int
    #: name of a step, or a duration in ms
    step: str = ""
    amount: int = 0
    #: of an interrupted call: it had been carried out
    is_carried_out: bool = False
    error: str = ""
    #: what a crash does to the disk: "", "tail", "everything"
    disk: str = ""
    #: of a lost reply: only while partitions are being revoked
    is_of_handover: bool = False


@dataclass(frozen=True)
class Swarm:
    """One schedule's configuration."""

    seed: int
    variant: str
    guarantee: Guarantee
    changelog_writes: ChangelogWrites
    group_protocol: Literal["consumer", "classic"]
    in_memory: bool
    workers: int
    commit_interval_ms: int
    checkpoint_interval_ms: int
    checkpoint_rows_max: int
    purge_interval_ms: int
    fetch_records_max: int
    delays_markers: bool
    buffers_sends: bool
    splits_assignments: bool
    #: how often at most a commit finds the brokers' answer missing, and records are processed
    background_looks_max: int
    transaction_timeout_ms: int
    session_timeout_ms: int
    #: the inputs arrive while the workers run, instead of being there before
    arrives_late: bool
    #: the inputs are written in transactions, some of them aborted
    inputs_are_transactional: bool
    #: steps a worker makes before another one's turn
    burst: int
    turn_ms: int
    #: chance per turn that a waiting marker, request or record arrives
    arrival_rate: float
    restart_turns: int
    faults: tuple[ScheduledFault, ...]


def draw(seed: int, variants: Sequence[str] = ("",), further: Sequence[str] = ()) -> Swarm:
    """The configuration of a seed; ``further`` variants are drawn on their own, so that what else
    a seed draws does not depend on them.
    """
    rng = random.Random(f"swarm-{seed}")
    workers = rng.choice((2, 2, 2, 3))
    return Swarm(
        seed=seed,
        variant=_variant(seed, rng.choice(variants), further),
        guarantee=rng.choice(("exactly_once", "exactly_once", "at_least_once")),
        changelog_writes=rng.choice(("commit", "commit", "update")),
        group_protocol=rng.choice(("consumer", "consumer", "classic")),
        in_memory=rng.random() < 0.15,
        workers=workers,
        commit_interval_ms=rng.choice((1, 10, 30, 60)),
        checkpoint_interval_ms=rng.choice((0, 20, 200, 10_000)),
        checkpoint_rows_max=rng.choice((3, 30, 200_000)),
        purge_interval_ms=rng.choice((10, 100, 30_000)),
        fetch_records_max=rng.choice((1, 2, 4, 50)),
        delays_markers=rng.random() < 0.7,
        buffers_sends=rng.random() < 0.5,
        splits_assignments=rng.random() < 0.4,
        background_looks_max=rng.choice((0, 1, 2)),
        transaction_timeout_ms=rng.choice((150, 1_000, 10_000)),
        session_timeout_ms=rng.choice((100, 400)),
        arrives_late=rng.random() < 0.6,
        inputs_are_transactional=rng.random() < 0.4,
        burst=rng.choice((6, 15, 40)),
        turn_ms=rng.choice((1, 4, 10)),
        arrival_rate=rng.choice((0.05, 0.3, 0.8)),
        restart_turns=rng.choice((1, 3, 8)),
        faults=_faults(rng, workers),
    )


def _variant(seed: int, drawn: str, further: Sequence[str]) -> str:
    rng = random.Random(f"variant-{seed}")
    return rng.choice(further) if further and rng.random() < _FURTHER_SHARE else drawn


def _faults(rng: random.Random, workers: int) -> tuple[ScheduledFault, ...]:
    # Sometimes a bit of everything, sometimes much of one kind.
    share = rng.choice((0.15, 0.6))
    chosen = {kind for kind in sorted(set(FAULTS)) if rng.random() < share}
    allowed = [kind for kind in FAULTS if kind in chosen]
    crashes = rng.randint(4, 7)
    others = rng.randint(0, 8) if allowed else 0
    kinds = rng.choices(("crash", "crash_at", "crash_at", "crash_in_write"), k=crashes)
    if allowed:
        kinds += rng.choices(allowed, k=others)
    rng.shuffle(kinds)
    gap = rng.choice((2, 5, 10))
    return tuple(_fault(rng, kind, rng.randint(1, gap), rng.randrange(workers)) for kind in kinds)


def _fault(rng: random.Random, kind: str, wait: int, slot: int) -> ScheduledFault:
    disk = ""
    if kind.startswith("crash") and rng.random() < 0.25:
        disk = rng.choice(("tail", "tail", "everything"))
    step, error, is_of_handover = "", "", False
    if kind == "crash_at":
        step = rng.choice(CRASH_STEPS)
    elif kind == "zombie" and rng.random() < 0.6:
        step = rng.choice(FREEZE_STEPS)
    elif kind == "lost_reply":
        step = rng.choice(list(LOST_REPLIES))
        error = rng.choice(LOST_REPLIES[step])
        is_of_handover = step in ("flush", "send_offsets", "commit") and rng.random() < 0.5
    elif kind == "repeated_end":
        step = rng.choice(("commit", "commit", "abort"))
        error = rng.choice(("", "retriable", "abortable"))
    elif kind == "exit":
        step, error = rng.choice(EXIT_STEPS), "broker"
    amount = rng.choice((500, 1_500) if step else (30, 150, 500, 1_500))
    return ScheduledFault(
        wait, kind, slot, step, amount, rng.random() < 0.5, error, disk, is_of_handover
    )


def without(swarm: Swarm, dropped: Iterable[int]) -> Swarm:
    """The same schedule with some faults left out."""
    gone = set(dropped)
    kept = tuple(fault for i, fault in enumerate(swarm.faults) if i not in gone)
    return replace(swarm, faults=kept)
