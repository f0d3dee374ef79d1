"""Reports of vehicles, drawn from a seed: slow traffic, and an accident on each road."""

from __future__ import annotations

import random

from examples.linear_road.app import EAST, ENTRY, EXIT, Report

MILE_FEET = 5_280
REPORT_S = 30
#: vehicles of a road, which enter within so many seconds and send so many reports
VEHICLES, ENTER_S, REPORTS = 85, 90, 20
FIRST_SEGMENT, LAST_SEGMENT = 10, 99
#: the first two vehicles stop here, as feet from the entry, for so many reports
ACCIDENT_FEET, ACCIDENT_REPORTS, ACCIDENT_SPEED = 3 * MILE_FEET + 900, 8, 55


def traffic(xways: int, seed: int) -> list[Report]:
    """Return the reports of both directions of all expressways, by time."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    found = [
        report
        for xway in range(xways)
        for direction in (0, 1)
        for number in range(VEHICLES)
        for report in _drive(rng, xway, direction, number)
    ]
    return sorted(found, key=lambda report: report.time)


def _drive(rng: random.Random, xway: int, direction: int, number: int) -> list[Report]:
    car = 1_000 * (2 * xway + direction) + number
    start, driven, waits = rng.randrange(ENTER_S), 0, 0
    found = []
    for report in range(REPORTS):
        speed = rng.randrange(15, 60 if report > REPORTS // 2 else 40)
        speed = ACCIDENT_SPEED if number < 2 else speed
        lane = ENTRY if report == 0 else EXIT if report == REPORTS - 1 else rng.randrange(1, 4)
        ahead = driven + speed * MILE_FEET * REPORT_S // 3_600
        if number < 2 and driven <= ACCIDENT_FEET < ahead and waits < ACCIDENT_REPORTS:
            ahead, speed, lane = ACCIDENT_FEET, 0, 2
            waits += 1
        driven = ahead
        feet = FIRST_SEGMENT * MILE_FEET + driven
        segment = feet // MILE_FEET
        if direction != EAST:
            segment, feet = LAST_SEGMENT - segment, (LAST_SEGMENT + 1) * MILE_FEET - 1 - feet
        time = start + report * REPORT_S
        found.append(Report(time, car, speed, xway, lane, direction, segment, feet))
    return found
