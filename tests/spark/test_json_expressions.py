"""What SQL makes of JSON documents is what the library makes of them."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from logstate.changelog.reading.types import column_type
from logstate.changelog.spark.kafka_sql import decoded
from logstate.serdes import json_of


class Colour(enum.Enum):
    RED = "r"


class Place(msgspec.Struct, frozen=True):
    city: str = "it's \\here"
    street: str | None = None


class Visit(msgspec.Struct, omit_defaults=True):
    place: Place = Place()
    stops: tuple[Place, ...] = (Place("there"),)
    by_day: dict[str, Place] = {}
    since: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    fare: Decimal = Decimal("1.50")
    either: int | str = 7
    tags: list[str] = []


class Odd(msgspec.Struct, rename={"a": "a b", "b": "b.c", "c": "c`d", "d": "it's"}):
    a: int
    b: int = 2
    c: Place = Place("x")
    d: tuple[int, ...] = (1,)


class Times(msgspec.Struct):
    local: datetime
    zoned: datetime
    day: date


@pytest.fixture
def far_from_utc(spark: SparkSession) -> Iterator[SparkSession]:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, "America/New_York")
    yield spark
    spark.conf.set(name, before)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (str, ["tea", ""]),
        (int, [5]),
        (uuid.UUID, [uuid.UUID(int=3)]),
        (Colour, [Colour.RED]),
        (Decimal, [Decimal("1.5")]),
        (
            datetime,
            [
                datetime(2026, 7, 1, 12, tzinfo=UTC),
                datetime(2026, 7, 1, 12, tzinfo=UTC).replace(tzinfo=None),
            ],
        ),
        (
            Visit,
            [
                Visit(),
                Visit(Place("far"), (), {"mon": Place()}),
                Visit(stops=(Place("x", "y"),), tags=["a"], either=8),
            ],
        ),
        (Odd, [Odd(1)]),
        (
            Times,
            [
                Times(
                    datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None),
                    datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))),
                    date(2026, 7, 1),
                )
            ],
        ),
    ],
)
def test_documents_are_the_same_by_sql(
    far_from_utc: SparkSession, kind: Any, values: list[Any]
) -> None:
    serde = json_of(kind)
    description = msgspec.json.decode(msgspec.json.encode(serde.describe()))
    documents = [*map(serde.serializer("t", False), values), None]
    frame = far_from_utc.createDataFrame([(each,) for each in documents], "raw binary")

    found = frame.selectExpr(f"{decoded(description, 'raw')} as v").toArrow()["v"]

    expected = column_type(description).fill(pa.array(documents, pa.binary()))
    assert found.to_pylist() == expected.to_pylist()
