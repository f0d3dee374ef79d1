"""Joins of each left record with the first or last right record of an interval, by brute force.

The model has no stores and no clocks: it decides which records are late from the prefix of the
input, and searches all of it for each left record that is not. With late streams that is the
definition of the result: a join of all records that are not late, in whatever order they came.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "ab"])


class Sided(NamedTuple):
    """A record of one side; with None a heartbeat, which the left side does not have."""

    is_left: bool
    key: str
    value: str | None
    time: int


#: how much later than the newest record so far: a little, not at all, or out of order
LATER = st.sampled_from([0, 1, 2, 3, 5, 9, 20, -1, -2, -4, -8, -15])


def sided(drawn: list[tuple[bool, str, int, bool]]) -> list[Sided]:
    newest, records = 0, []
    for number, (is_left, key, later, is_heartbeat) in enumerate(drawn):
        value = None if is_heartbeat and not is_left else f"{'l' if is_left else 'r'}{number}"
        records.append(Sided(is_left, key, value, max(0, newest + later)))
        newest = max(newest, newest + later)
    return records


#: a quarter are heartbeats, if they are of the right side
RECORDS = st.lists(
    st.tuples(st.booleans(), KEYS, LATER, st.sampled_from([False, False, False, True])),
    max_size=25,
).map(sided)


class Joined(NamedTuple):
    """What a model run found: results, and late records with their missed intervals."""

    results: list[tuple[str, str, int]]
    #: value, start and end of the missed interval, by how much
    late: list[tuple[str | None, int, int, int]]


class OneMatch(NamedTuple):
    """The join: its interval, its grace, and which match it chooses."""

    before: int
    after: int
    grace: int
    takes_last: bool = True
    is_left: bool = False

    def joined(self, records: list[Sided]) -> Joined:
        """The results of a run whose last record has closed every interval."""
        late: list[tuple[str | None, int, int, int]] = []
        accepted: list[Sided] = []
        waiting: list[Sided] = []
        closed: list[Sided] = []
        clock = -1
        for record in records:
            _, _, value, time = record
            if record.is_left:
                if (by_ms := clock - time - self.after - self.grace) > 0:
                    missed = max(0, time - self.before), max(0, time + self.after)
                    late.append((value, *missed, by_ms))
                else:
                    waiting.append(record)
                continue
            clock = max(clock, time)
            due = [one for one in waiting if one.time + self.after + self.grace < clock]
            closed += sorted(due, key=lambda one: (one.time, one.key))
            waiting = [one for one in waiting if one not in due]
            if value is not None and (by_ms := clock - time - self.grace) > 0:
                missed = max(0, time - self.after), max(0, time + self.before)
                late.append((value, *missed, by_ms))
            elif value is not None:
                accepted.append(record)
        assert not waiting, "the last record closes every interval"
        found = [self._result(left, accepted) for left in closed]
        return Joined([one for one in found if one is not None], late)

    def _result(self, left: Sided, accepted: list[Sided]) -> tuple[str, str, int] | None:
        matches = [
            (right.time, number, right)
            for number, right in enumerate(accepted)
            if right.key == left.key
            and left.time - self.before <= right.time <= left.time + self.after
        ]
        if matches:
            right = (max if self.takes_last else min)(matches)[2]
            return left.key, f"{left.value}+{right.value}", max(left.time, right.time)
        return (left.key, f"{left.value}+None", left.time) if self.is_left else None
