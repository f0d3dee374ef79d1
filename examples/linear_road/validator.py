"""What the notifications and balances must be, from all reports at once.

Written apart from the application: it has no state of the moment, but the whole history of each
road. Sources of the rules: README.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from examples.linear_road.app import Alert, Report, Toll, road_of

#: later than any report
NEVER = 1 << 40


class Expected(NamedTuple):
    """Notifications by vehicle, and what each vehicle has paid for how many segments."""

    tolls: Counter[tuple[int, Toll]]
    alerts: Counter[tuple[int, Alert]]
    balances: dict[int, tuple[int, int]]


def expected(reports: Sequence[Report]) -> Expected:
    found = Expected(Counter(), Counter(), {})
    roads: defaultdict[str, list[Report]] = defaultdict(list)
    for report in reports:
        roads[road_of(report)].append(report)
    for road in roads.values():
        _add_road(road, found)
    return found


def _add_road(road: list[Report], found: Expected) -> None:
    present: defaultdict[tuple[int, int], list[Report]] = defaultdict(list)
    histories: defaultdict[int, list[Report]] = defaultdict(list)
    for report in road:
        present[report.segment, report.time // 60].append(report)
        histories[report.car].append(report)
    accidents = _accidents(histories)
    for car, history in histories.items():
        paid = []
        due = 0
        for _, visit in groupby(history, key=lambda report: report.segment):
            first = next(visit)
            if due:
                paid.append(due)
            due = 0
            if first.lane == 4:
                continue
            lav, due = _price(present, first)
            segment = _announced(accidents, first)
            if segment is not None:
                due = 0
                found.alerts[car, Alert(first.time, segment)] += 1
            found.tolls[car, Toll(first.time, first.segment, lav, due)] += 1
        if paid:
            found.balances[car] = (sum(paid), len(paid))


def _price(present: dict[tuple[int, int], list[Report]], report: Report) -> tuple[int, int]:
    minute = report.time // 60
    speeds = [
        one.speed
        for back in range(1, 6)
        for one in present.get((report.segment, minute - back), ())
    ]
    lav = int(sum(speeds) / len(speeds) + 0.5) if speeds else 0
    cars = len({one.car for one in present.get((report.segment, minute - 1), ())})
    return lav, 2 * (cars - 50) ** 2 if lav < 40 and cars > 50 else 0


def _accidents(histories: dict[int, list[Report]]) -> list[tuple[int, int, int]]:
    """Return the segment of each accident, and the minutes in which it was detected and cleared."""
    stops: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for history in histories.values():
        for place, group in groupby(history, key=lambda report: (report.lane, report.position)):
            reports = list(group)
            if len(reports) >= 4:
                after = [one.time for one in history if one.time > reports[-1].time]
                ends = min(after, default=NEVER)
                stops[place].append((reports[3].time, ends, reports[0].segment))
    found = []
    for two in stops.values():
        if len(two) == 2:
            (_, ends, segment), (begins, other_ends, _) = sorted(two)
            if begins < ends:
                found.append((segment, begins // 60, min(ends, other_ends) // 60))
    return found


def _announced(accidents: list[tuple[int, int, int]], report: Report) -> int | None:
    step = 1 if report.direction == 0 else -1
    minute = report.time // 60
    near = [
        step * (segment - report.segment)
        for segment, detected, cleared in accidents
        if 0 <= step * (segment - report.segment) <= 4 and detected < minute <= cleared
    ]
    return report.segment + step * min(near) if near else None
