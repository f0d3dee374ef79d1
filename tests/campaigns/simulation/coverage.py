"""What a range of schedules has tried: which faults fired, which oracles had anything to compare.

A fault that never fires and an oracle that has nothing to look at are holes: the range says nothing
about what they are there for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from logstate.testing.simulation.swarm import CRASH_STEPS, EXIT_STEPS, FREEZE_STEPS, LOST_REPLIES

#: schedules from which on a share says something
JUDGED_FROM = 500
#: of all schedules, in which a fault has to fire
_FAULT_SHARE_MIN = 0.01
#: of the schedules that it applies to, in which an oracle has to compare something
_ORACLE_SHARE_MIN = 0.5
_ORACLE = "compared_"

#: what can be drawn to go wrong, as it is counted when it happens, not when it is ordered
FAULTS = (
    *("crash", "crashes_in_disk_write", "crashes_with_tail_of_disk_lost"),
    *("crashes_with_everything_of_disk_lost", "crashes_transaction_open", "crashes_committing"),
    *("crashes_restoring", "crashes_replacing_producer", "crashes_without_tasks"),
    *("expel", "time_out", "rebalance", "restart", "slow", "clock_jump", "clean", "late_ends"),
    *("zombie", "exits", "repeated_end_commit", "repeated_end_abort"),
    *(f"crash_at_{step}" for step in dict.fromkeys(CRASH_STEPS)),
    *(f"lost_reply_{step}" for step in LOST_REPLIES),
    *(f"zombie_{step}" for step in dict.fromkeys(FREEZE_STEPS)),
    *(f"exit_{step}" for step in EXIT_STEPS),
)


class Coverage:
    """Of many schedules: in how many each counter moved, and in how many it could have.

    ``faults`` are those that these schedules are there for.
    """

    def __init__(self, faults: Sequence[str] = ()) -> None:
        self.schedules = 0
        self._faults = faults
        self._moved: Counter[str] = Counter()
        self._applied: Counter[str] = Counter()

    def add(self, counters: Mapping[str, int]) -> None:
        """One schedule; an oracle that applied and compared nothing has a counter that is 0."""
        self.schedules += 1
        self._applied.update(counters.keys())
        self._moved.update(name for name, count in counters.items() if count)

    def faults(self) -> Iterator[tuple[str, float]]:
        """Each fault, with the share of the schedules in which it fired."""
        for name in self._faults:
            yield name, self._moved[name] / max(self.schedules, 1)

    def oracles(self) -> Iterator[tuple[str, int, float]]:
        """Each oracle, the schedules it applied to, and the share in which it compared anything."""
        for name in sorted(self._applied):
            if name.startswith(_ORACLE):
                applied = self._applied[name]
                yield name.removeprefix(_ORACLE), applied, self._moved[name] / applied

    def lines(self) -> Iterator[str]:
        """The two tables."""
        yield "faults, and the share of the schedules in which each fired"
        for name, share in self.faults():
            yield f"    {name:44} {share:7.1%}"
        yield "oracles, the schedules that each applied to, and the share with anything to compare"
        for name, applied, share in self.oracles():
            yield f"    {name:44} {applied:10,} {share:7.1%}"

    def holes(self) -> list[str]:
        """What the range says too little about; nothing is said of too few schedules."""
        if self.schedules < JUDGED_FROM:
            return []
        found = [
            f"{name} fired in {share:.2%} of the schedules"
            for name, share in self.faults()
            if share < _FAULT_SHARE_MIN
        ]
        return found + [
            f"oracle {name} compared something in {share:.0%} of the schedules it applies to"
            for name, _, share in self.oracles()
            if share < _ORACLE_SHARE_MIN
        ]
