"""Linear Road: tolls that depend on the traffic, and warnings of accidents, on expressways.

    reports (by road) ── state of the road ─┬─ tolls, to the vehicle that enters a segment
                                            ├─ alerts, to vehicles that come near an accident
                                            └─ charges ── by vehicle ── sum (store: balances)

A road is one direction of one expressway, and everything about it is decided by the task of its
partition, in the order of its reports.
"""

from __future__ import annotations

from typing import Any

import msgspec

from logstate import (
    Count,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Sum,
    Topology,
    key_value_store,
    map_store,
    set_store,
)

ENTRY, EXIT = 0, 4
EAST = 0
#: a vehicle has stopped when so many reports in a row have the same lane and position
STOPPED_REPORTS = 4
#: an accident is announced in its segment and the four before it
SEGMENTS_AHEAD = 4
#: there are no tolls for up to so many vehicles, nor at this speed in miles per hour
FREE_VEHICLES, FREE_SPEED = 50, 40
LAV_MINUTES = 5
REENTRY_S = 60


class Report(msgspec.Struct, frozen=True):
    """A vehicle's position, every 30 seconds. ``time`` is in seconds, ``position`` in feet."""

    time: int
    car: int
    speed: int
    xway: int
    lane: int
    direction: int
    segment: int
    position: int


class Toll(msgspec.Struct, frozen=True):
    """The toll of a segment, due when the vehicle leaves it; ``lav`` is the average speed."""

    time: int
    segment: int
    lav: int
    toll: int


class Alert(msgspec.Struct, frozen=True):
    """There is an accident in this segment."""

    time: int
    segment: int


class Vehicle(msgspec.Struct, frozen=True):
    """The last report of a vehicle; ``reports`` in a row have its position."""

    time: int
    lane: int
    segment: int
    position: int
    reports: int
    toll: int


class Minute(msgspec.Struct, frozen=True):
    """The traffic of a segment in a minute."""

    vehicles: int = 0
    reports: int = 0
    speeds: int = 0


class Accident(msgspec.Struct, frozen=True):
    """``cleared`` is when the first of its cars moved, None until then."""

    cars: tuple[int, int]
    cleared: int | None = None


VEHICLES = key_value_store("vehicles", key=tuple[str, int], value=Vehicle)
MINUTES = map_store(
    "minutes", key=tuple[str, int], map_key=int, value=Minute, max_size=LAV_MINUTES + 1
)
#: the vehicles that have stopped at a lane and position of a road
STOPPED = set_store("stopped", key=tuple[str, int, int], value=int)
#: of a road, by segment and time
ACCIDENTS = map_store("accidents", key=str, map_key=tuple[int, int], value=Accident)


def road_of(report: Report) -> str:
    return f"{report.xway}-{report.direction}"


def minute_of(time: int) -> int:
    return time // 60 + 1


class Road(Processor[str, Report, int, Any]):
    """Forwards to the operators named tolls, alerts and charges."""

    def init(self, context: ProcessorContext[int, Any]) -> None:
        super().init(context)
        self._vehicles = context.store(VEHICLES)
        self._minutes = context.store(MINUTES)
        self._stopped = context.store(STOPPED)
        self._accidents = context.store(ACCIDENTS)

    def process(self, record: Record[str, Report]) -> None:
        road, report = record.key, record.value
        known = self._vehicles.get((road, report.car))
        if known and report.lane == ENTRY and report.time > known.time + REENTRY_S:
            known = None
        self._count(road, report, known)
        stays = known and (known.lane, known.position) == (report.lane, report.position)
        reports = known.reports + 1 if known and stays else 1
        if reports == STOPPED_REPORTS:
            self._stop(road, report)
        elif known and not stays and known.reports >= STOPPED_REPORTS:
            self._drive_on(road, report, known)
        toll = known.toll if known else 0
        if known is None or known.segment != report.segment:
            if toll:
                self.context.forward(Record(report.car, toll, record.timestamp), "charges")
            toll = 0 if report.lane == EXIT else self._enter(road, report, record.timestamp)
        place = (report.time, report.lane, report.segment, report.position)
        self._vehicles.put((road, report.car), Vehicle(*place, reports, toll))

    def _count(self, road: str, report: Report, known: Vehicle | None) -> None:
        segment, minute = (road, report.segment), minute_of(report.time)
        before = self._minutes.get(segment, minute) or Minute()
        is_first = known is None or (known.segment, minute_of(known.time)) != (
            report.segment,
            minute,
        )
        self._minutes.put(
            segment,
            minute,
            Minute(before.vehicles + is_first, before.reports + 1, before.speeds + report.speed),
        )

    def _stop(self, road: str, report: Report) -> None:
        place = (road, report.lane, report.position)
        others = list(self._stopped.values(place))
        self._stopped.add(place, report.car)
        if len(others) == 1:
            accident = Accident((others[0], report.car))
            self._accidents.put(road, (report.segment, report.time), accident)

    def _drive_on(self, road: str, report: Report, known: Vehicle) -> None:
        self._stopped.discard((road, known.lane, known.position), report.car)
        segment = known.segment
        for key, accident in self._accidents.items(road, (segment, 0), (segment, report.time)):
            if accident.cleared is None and report.car in accident.cars:
                self._accidents.put(road, key, Accident(accident.cars, report.time))

    def _enter(self, road: str, report: Report, timestamp: int) -> int:
        """Notify a vehicle that enters a segment, and return the toll of the segment."""
        lav, toll = self._toll(road, report)
        accident = self._accident_ahead(road, report)
        if accident is not None:
            toll = 0
            alert = Alert(report.time, accident)
            self.context.forward(Record(report.car, alert, timestamp), "alerts")
        notice = Toll(report.time, report.segment, lav, toll)
        self.context.forward(Record(report.car, notice, timestamp), "tolls")
        return toll

    def _toll(self, road: str, report: Report) -> tuple[int, int]:
        """Return the average speed of the last five minutes, and the toll without an accident."""
        segment, minute = (road, report.segment), minute_of(report.time)
        past = [one for _, one in self._minutes.items(segment, minute - LAV_MINUTES, minute - 1)]
        reports, speeds = sum(one.reports for one in past), sum(one.speeds for one in past)
        lav = (2 * speeds + reports) // (2 * reports) if reports else 0
        last = self._minutes.get(segment, minute - 1) or Minute()
        is_free = lav >= FREE_SPEED or last.vehicles <= FREE_VEHICLES
        return lav, 0 if is_free else 2 * (last.vehicles - FREE_VEHICLES) ** 2

    def _accident_ahead(self, road: str, report: Report) -> int | None:
        """Return the segment of the nearest accident, if one is to be announced."""
        minute, here = minute_of(report.time), report.segment
        step = 1 if report.direction == EAST else -1
        for segment in range(here, here + step * (SEGMENTS_AHEAD + 1), step):
            known = self._accidents.items(road, (segment, 0), (segment, report.time))
            for (_, detected), accident in known:
                until = minute if accident.cleared is None else minute_of(accident.cleared)
                if minute_of(detected) < minute <= until:
                    return segment
        return None


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    reports = builder.stream(f"{prefix}reports", key=str, value=Report)
    stores = [VEHICLES, MINUTES, STOPPED, ACCIDENTS]
    road = reports.process(Road, stores=stores, key=int, name="road")
    road.to(f"{prefix}tolls", value=Toll, name="tolls")
    road.to(f"{prefix}alerts", value=Alert, name="alerts")
    charges = road.map_values(lambda toll: toll, value=int, name="charges")
    balances = charges.group_by_key(name="by-car").agg(
        cents=Sum(lambda toll: toll, int), tolls=Count(), store="balances"
    )
    balances.to_stream().to(f"{prefix}balances")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="linear-road")
