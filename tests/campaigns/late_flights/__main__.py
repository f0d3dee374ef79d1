"""Count every flight of a year once, accepted or late, where flights arrive up to six hours late.

    python -m tests.campaigns.late_flights [--days N] [--seed N]

Tumbling, hopping and session windows and an outer stream join read the shuffled flights in the test
driver. Each flight must be accepted or be a late record, once per window that it missed by a stream
time that is computed from the inputs alone. All windows close, the last ones because the
inputs are idle, and each has one final result. The last line is JSON: the flights, and the late
records of each operator. The end is 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from examples.flights import data
from logstate import (
    HoppingWindows,
    JoinWindows,
    KStream,
    LateRecord,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    TumblingWindows,
)

_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_DELAY_MAX_MS = 6 * _HOUR_MS
_GRACE = _HOUR
#: no row expires before it is counted
_YEARS = timedelta(days=800)
_DAY_MS = 24 * _HOUR_MS
WINDOWS = {
    "tumbling": TumblingWindows(size=_HOUR, grace=_GRACE, close_on_idle=_HOUR),
    "hopping": HoppingWindows(size=2 * _HOUR, advance=_HOUR, grace=_GRACE, close_on_idle=_HOUR),
    "session": SessionWindows(gap=timedelta(minutes=30), grace=_GRACE, close_on_idle=_HOUR),
}
JOIN = "join"
#: key, start and end
_WINDOW = tuple[str, int, int]
#: the join's two inputs
SIDES = ("odd", "even")


class Arrival(NamedTuple):
    """A flight: its number, in order of event time from 0 on, its carrier and its event time."""

    number: int
    carrier: str
    event_ms: int


class Missed(msgspec.Struct, frozen=True):
    """A late record: the number of the flight, and the window that it missed."""

    number: int
    start_ms: int
    end_ms: int


class Joined(msgspec.Struct, frozen=True):
    """The numbers of two joined flights; None without a partner."""

    odd: int | None
    even: int | None


def arrivals(days: int | None, seed: int) -> list[Arrival]:
    """Return the flights of the first days of the year, in the order of arrival."""
    flights = data.flights()
    if days is not None:
        end_ms = flights[0].event_time_ms + days * _DAY_MS
        flights = [one for one in flights if one.event_time_ms < end_ms]
    delay = random.Random(seed).randrange
    arriving = [
        (one.event_time_ms + delay(_DELAY_MAX_MS), Arrival(at, one.carrier, one.event_time_ms))
        for at, one in enumerate(flights)
    ]
    return [one for _, one in sorted(arriving)]


def topology() -> Topology:
    """Return the topology: the three windows by carrier, and the join by carrier."""
    builder = StreamsBuilder()
    flights = builder.stream("flights", key=str, value=int).group_by_key()
    for name, windows in WINDOWS.items():
        store = Materialized(name, retention=_YEARS)
        counts = flights.windowed_by(windows).count(store=store, emit="close", late=f"late-{name}")
        counts.to_stream(lambda window, _: (*window,), key=_WINDOW).to(f"final-{name}")
        _send(builder.late(f"late-{name}", key=str, value=int), name)
    odd, even = (builder.stream(side, key=str, value=int) for side in SIDES)
    near = JoinWindows.symmetric(timedelta(minutes=5), grace=_GRACE, close_on_idle=_HOUR)
    pairs = odd.outer_join(even, Joined, windows=near, name=JOIN, late="late-join")
    pairs.to("pairs", value=Joined)
    _send(builder.late("late-join", key=str, value=int), JOIN)
    return builder.build()


def _send(late: KStream[str, LateRecord[str, int]], name: str) -> None:
    missed = late.map_values(
        lambda one: Missed(one.value, one.window.start_ms, one.window.end_ms), value=Missed
    )
    missed.to(f"missed-{name}")


def run(arriving: list[Arrival]) -> dict[str, int]:
    """Process the flights; return the number of late records by operator.

    Raises AssertionError if a flight is missing, or counted twice.
    """
    with TopologyTestDriver(topology(), commit_every=5_000) as driver:
        for number, carrier, event_ms in arriving:
            driver.pipe("flights", carrier, number, timestamp=event_ms)
            driver.pipe(SIDES[number % 2], carrier, number, timestamp=event_ms)
        driver.advance_wall_clock(4 * _HOUR)
        late = {name: _missed(driver, name) for name in (*WINDOWS, JOIN)}
        for name in WINDOWS:
            rows = {(*window,): row for window, row in driver.store(name).all()}
            counts = rows if name == "session" else {at: row.value for at, row in rows.items()}
            found = sum(counts.values()) + late[name].total()
            _check(name, "accepted and late", found, _total(name, arriving))
            final = Counter(driver.read(f"final-{name}", key=_WINDOW, value=int))
            if name == "session":  # a record just in time takes in a session that was final
                _check(name, "without a final result", counts.items() - final.keys(), set())
                _check(name, "final results", set(final.values()), {1})
            else:
                _check(name, "final results", final, Counter(counts.items()))
        pairs: list[Joined] = [one for _, one in driver.read("pairs", value=Joined)]
    joined = {one for pair in pairs for one in (pair.odd, pair.even) if one is not None}
    late_numbers = {one.number for one in late[JOIN]}
    _check(JOIN, "joined and late", joined & late_numbers, set())
    _check(JOIN, "flights", joined | late_numbers, {one.number for one in arriving})
    for name in (*WINDOWS, JOIN):
        _check(name, "late twice", [one for one, times in late[name].items() if times > 1], [])
    for name in ("tumbling", "hopping"):
        _check(name, "late records", late[name], Counter(_expected(name, arriving)))
    return {name: found.total() for name, found in late.items()}


def _missed(driver: TopologyTestDriver, name: str) -> Counter[Missed]:
    return Counter(one for _, one in driver.read(f"missed-{name}", value=Missed))


def _windows_of(name: str, event_ms: int) -> list[tuple[int, int]]:
    hours = 2 if name == "hopping" else 1
    last_ms = event_ms // _HOUR_MS * _HOUR_MS
    starts = (last_ms - at * _HOUR_MS for at in range(hours))
    return [(start_ms, start_ms + hours * _HOUR_MS) for start_ms in starts]


def _total(name: str, arriving: list[Arrival]) -> int:
    if name == "session":
        return len(arriving)
    return sum(len(_windows_of(name, one.event_ms)) for one in arriving)


def _expected(name: str, arriving: list[Arrival]) -> Iterator[Missed]:
    """Yield the late records of a window: its end and the grace are not after stream time."""
    stream_time_ms = 0
    for number, _, event_ms in arriving:
        stream_time_ms = max(stream_time_ms, event_ms)
        for start_ms, end_ms in _windows_of(name, event_ms):
            if end_ms + _HOUR_MS <= stream_time_ms:
                yield Missed(number, start_ms, end_ms)


def _check(name: str, what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{name}: {what}: {found!r:.500}, expected {expected!r:.500}")


def main() -> int:
    """The command line."""
    name = "python -m tests.campaigns.late_flights"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--days", type=int, help="only the first days of the year")
    parser.add_argument("--seed", type=int, default=1, help="the order of arrival (default 1)")
    a = parser.parse_args()
    arriving = arrivals(a.days, a.seed)
    try:
        late = run(arriving)
    except AssertionError as e:
        print(e)
        return 1
    print(json.dumps({"flights": len(arriving), "late": late}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
