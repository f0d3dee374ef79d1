"""The application: how late do flights leave, per airline and hour, and per model of plane?

    flights ── remember source ─┬─ re-key by carrier ─ + airline ─ hourly windows ─ carrier-hours
    airlines (table) ───────────┼───────────────────────┘
    planes (table) ─────────────┴─ + plane ─ re-key by model ─ totals ─ model-totals

Flights are keyed by tail number, so that they lie in the same partition as their plane and join
without moving. Behind each re-keying there is a repartition topic. A flight without a tail number
has a null key; the left join hands it on without a plane. Every result carries in a header which
record of the flights topic caused it: one flight, one result on each output topic.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from logstate import Processor, Record, StreamsBuilder, Topology, TumblingWindows

SOURCE_HEADER = "source"
NO_TAIL_NUMBER = "no tail number"
UNKNOWN_PLANE = "unknown plane"

# Flights are sent in order of event time, but each carrier is counted behind a repartition topic,
# where the flights partitions meet. Nothing keeps their readers level: while the partitions of a
# killed instance wait for a new owner, the others may run ahead to the end of the year. So a
# window stays open for longer than all the data last: no flight may be dropped as late.
GRACE = timedelta(days=400)


class Flight(msgspec.Struct, frozen=True):
    """The three of its nineteen columns that matter here."""

    carrier: str
    tailnum: str | None
    dep_delay: int | None


class Plane(msgspec.Struct, frozen=True):
    model: str


class Airline(msgspec.Struct, frozen=True):
    name: str


class Departure(msgspec.Struct, frozen=True):
    """What of a flight goes through a repartition topic; ``name`` is its airline's or model's."""

    name: str
    delay: int | None


class Delays(msgspec.Struct, frozen=True):
    """Whole minutes: sums are exact in any order. ``longest`` is None while no delay is known."""

    name: str = ""
    flights: int = 0
    without_delay: int = 0
    minutes: int = 0
    squares: int = 0
    longest: int | None = None


def counted(delays: Delays, departure: Departure) -> Delays:
    """The figures with one more departure."""
    name, delay, flights = departure.name, departure.delay, delays.flights + 1
    if delay is None:
        without_delay = delays.without_delay + 1
        return replace(delays, name=name, flights=flights, without_delay=without_delay)
    return replace(
        delays,
        name=name,
        flights=flights,
        minutes=delays.minutes + delay,
        squares=delays.squares + delay * delay,
        longest=delay if delays.longest is None else max(delay, delays.longest),
    )


def with_airline(flight: Flight, airline: Airline | None) -> Departure:
    return Departure(airline.name if airline else flight.carrier, flight.dep_delay)


def with_model(flight: Flight, plane: Plane | None) -> Departure:
    known = plane.model if plane else UNKNOWN_PLANE
    return Departure(NO_TAIL_NUMBER if flight.tailnum is None else known, flight.dep_delay)


class RememberSource(Processor[str, Flight, str, Flight]):
    """Writes topic, partition and offset of each record into a header that its results inherit."""

    def process(self, record: Record[str, Flight]) -> None:
        at = self.context.record_metadata()
        assert at is not None  # only what a schedule forwards comes from nowhere
        source = f"{at.topic}:{at.partition}:{at.offset}".encode()
        headers = [*(record.headers or ()), (SOURCE_HEADER, source)]
        self.context.forward(record._replace(headers=headers))


def topology() -> Topology:
    builder = StreamsBuilder()
    airlines = builder.table("airlines", key=str, value=Airline, store="airlines")
    planes = builder.table("planes", key=str, value=Plane, store="planes")
    flights = builder.stream("flights", key=str, value=Flight)
    flights = flights.process_values(RememberSource, value=Flight, name="remember-source")
    (
        flights.select_key(lambda flight: flight.carrier, key=str)
        .repartition(name="by-carrier", value=Flight)
        .left_join(airlines, with_airline)
        .group_by_key(value=Departure)
        .windowed_by(TumblingWindows(size=timedelta(hours=1), grace=GRACE))
        .aggregate(Delays, counted, store="carrier-hours", value=Delays)
        .to_stream()
        .to("carrier-hours")
    )
    (
        flights.left_join(planes, with_model)
        .group_by(lambda departure: departure.name, name="by-model", key=str, value=Departure)
        .aggregate(Delays, counted, store="model-totals", value=Delays)
        .to_stream()
        .to("model-totals")
    )
    return builder.build()
