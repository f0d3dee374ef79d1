"""The topology, run without a broker over the year's first days, arrives at the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from examples.flights import comparison, loader, reference
from examples.flights.app import NO_TAIL_NUMBER, SOURCE_HEADER, Delays, topology
from examples.flights.reference import Reference
from logstate.serdes import string, windowed
from logstate.testing import TopologyTestDriver

DAYS = 4


@pytest.fixture(scope="module")
def expected() -> Reference:
    return reference.compute(DAYS)


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    encode = msgspec.json.Encoder().encode
    with TopologyTestDriver(topology(), commit_every=1_000) as driver:
        for topic, rows in loader.rows(DAYS).items():
            for key, value, timestamp_ms in rows:
                key_bytes = None if key is None else key.encode()
                driver.pipe_raw(topic, key_bytes, encode(value), timestamp_ms)
        driver._commit()
        yield driver


def test_the_stores_equal_the_reference(driver: TopologyTestDriver, expected: Reference) -> None:
    hours = comparison.carrier_hours(
        (window.key, window.start_ms, window.end_ms, msgspec.to_builtins(row.value))
        for window, row in driver.store("carrier-hours").all()
    )
    totals = comparison.model_totals(
        (model, msgspec.to_builtins(row.value)) for model, row in driver.store("model-totals").all()
    )
    keys = ("carrier", "start_ms", "end_ms")
    right = comparison.reference_table(expected.carrier_hours, keys, "airline")
    assert comparison.differences(right, hours) == []
    right = comparison.reference_table(expected.model_totals, ("model",), "model")
    assert comparison.differences(right, totals) == []


def test_nothing_is_dropped(driver: TopologyTestDriver) -> None:
    assert driver.dropped_total == 0


def test_each_flight_causes_one_record_on_each_output(
    driver: TopologyTestDriver, expected: Reference
) -> None:
    sources = Counter(
        (record.topic, dict(record.headers or ()).get(SOURCE_HEADER)) for record in driver.outputs
    )
    assert set(sources) == {
        (topic, f"flights:0:{offset}".encode())
        for topic in loader.OUTPUT_TOPICS
        for offset in range(expected.records)
    }
    assert set(sources.values()) == {1}


def test_the_last_output_of_each_key_is_the_row_of_the_store(driver: TopologyTestDriver) -> None:
    decode = msgspec.json.Decoder(Delays).decode
    decode_key = windowed(string, 3_600_000).deserializer("carrier-hours", True)
    last_hours, last_totals = {}, {}
    for record in driver.outputs:
        assert record.key is not None
        assert record.value is not None
        if record.topic == "carrier-hours":
            last_hours[decode_key(record.key)] = decode(record.value)
        else:
            last_totals[record.key.decode()] = decode(record.value)
    rows = driver.store("carrier-hours").all()
    assert last_hours == {window: row.value for window, row in rows}
    assert last_totals == {model: row.value for model, row in driver.store("model-totals").all()}


def test_a_flight_without_tail_number_has_no_key_and_is_counted() -> None:
    flight = {"carrier": "AA", "tailnum": None, "dep_delay": None}
    with TopologyTestDriver(topology()) as driver:
        driver.pipe_raw("flights", None, msgspec.json.encode(flight), 1_000)
        (row,) = driver.read("model-totals", value=Delays)
    assert row == (NO_TAIL_NUMBER, Delays(NO_TAIL_NUMBER, flights=1, without_delay=1))
