"""A stream-stream join by lists: what `test_stream_joins` compares the operators with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

LEFT, RIGHT = True, False
Side = bool


class Event(NamedTuple):
    """One record of one side; the value is what makes results tellable."""

    side: Side
    key: str | None
    value: str | None
    time: int


class Result(NamedTuple):
    """One joined record."""

    key: str | None
    pair: tuple[str | None, str | None]
    time: int


class Row(NamedTuple):
    """A record that is kept; ``arrival`` numbers all records of the run."""

    time: int
    side: Side
    key: str
    arrival: int
    value: str


@dataclass
class JoinModel:
    """The rules in the docstring of `stream_join`, over plain lists."""

    kind: Literal["inner", "left", "outer"]
    before: int
    after: int
    grace: int
    #: stores in memory move their clock even for null values, which they do not keep
    in_memory: bool = False
    now: int = -1
    clocks: dict[Side, int] = field(default_factory=lambda: {LEFT: -1, RIGHT: -1})
    arrivals: int = 0
    kept: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    #: time of the row that decides when to look again; None: look at any time
    watched: int | None = None

    def process(self, event: Event) -> list[Result]:
        side, key, value, time = event
        self.now = max(self.now, time)
        self.arrivals += 1
        results = self.results(event)
        if key is not None and (value is not None or self.in_memory):
            self.clocks[side] = max(self.clocks[side], time)
        if key is not None and value is not None:
            self.kept.append(Row(time, side, key, self.arrivals, value))
        return results

    def results(self, event: Event) -> list[Result]:
        side, key, value, time = event
        if value is None or (key is None and not self.emits_unmatched(side)):
            return []
        if key is None:
            return [Result(None, self.pair(side, value, None), time)]
        results = self.expired(side) if time == self.now else []
        partners = self.partners(event)
        for partner in partners:
            pair = self.pair(side, value, partner.value)
            results.append(Result(key, pair, max(time, partner.time)))
        matched = {(row.side, row.key, row.time) for row in partners}
        self.waiting = [r for r in self.waiting if (r.side, r.key, r.time) not in matched]
        if not partners and self.emits_unmatched(side):
            if time + self.ahead(side) < self.now:
                results.append(Result(key, self.pair(side, value, None), time))
            else:
                self.waiting.append(Row(time, side, key, self.arrivals, value))
                self.watched = time if self.watched is None else min(self.watched, time)
        return results

    def partners(self, event: Event) -> list[Row]:
        side, key, _, time = event
        oldest = self.clocks[not side] - (self.before + self.after + self.grace) + 1
        return sorted(
            row
            for row in self.kept
            if (row.side, row.key) == (not side, key)
            and time - self.ahead(not side) <= row.time <= time + self.ahead(side)
            and row.time >= oldest
        )

    def expired(self, side: Side) -> list[Result]:
        """The waiting rows that are over, if this record has cause to look for them."""
        if self.watched is None:
            if self.ahead(side) + self.grace == 0:
                return []
        elif self.watched + self.ahead(side) + self.grace >= self.now:
            return []
        self.waiting.sort()
        over = [row for row in self.waiting if self.is_over(row)]
        # A look goes on until it met rows of both sides that are not over, and one more.
        seen: list[Row] = []
        for row in self.waiting:
            met = {other.side for other in seen if not self.is_over(other)}
            seen.append(row)
            if len(met) == 2:
                break
        self.watched = seen[-1].time if seen else None
        self.waiting = [row for row in self.waiting if not self.is_over(row)]
        return [Result(r.key, self.pair(r.side, r.value, None), r.time) for r in over]

    def is_over(self, row: Row) -> bool:
        return row.time + self.ahead(row.side) + self.grace < self.now

    def ahead(self, side: Side) -> int:
        """How much newer a partner of this side's record may be."""
        return self.after if side is LEFT else self.before

    def emits_unmatched(self, side: Side) -> bool:
        return self.kind == "outer" or (self.kind == "left" and side is LEFT)

    @staticmethod
    def pair(side: Side, own: str, other: str | None) -> tuple[str | None, str | None]:
        return (own, other) if side is LEFT else (other, own)
