"""A source topic that serves as changelog restores what processing stored, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logstate.app.application import Application
from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.clients import run_steps
from logstate.contracts.errors import ConfigError, RegistryError
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.restore.restore import logged_fields, readable
from logstate.serdes import avro, int64, json, json_of, string
from logstate.serdes.scalars import ScalarSerde
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.testing.fake.fetched import StoredRecord
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topology import Materialized, StreamsBuilder, Topology
from logstate.topology.processor.timestamp_extractors import wall_clock_time


@pytest.mark.parametrize("commit_every", [1, 3, 100])
def test_records_that_were_skipped_do_not_come_back(commit_every: int) -> None:
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices").to_stream().to("out")
    topology = builder.build(optimization="all")
    handlers = ErrorHandlers(deserialization=skip)
    with TopologyTestDriver(topology, error_handlers=handlers, commit_every=commit_every) as driver:
        driver.pipe_raw("prices", b"a", (1).to_bytes(8, "big"), 1)
        driver.pipe_raw("prices", None, (2).to_bytes(8, "big"), 2)
        driver.pipe_raw("prices", b"b", b"no number", 3)
        driver.pipe_raw("prices", b"c", (3).to_bytes(8, "big"), 4)
        driver.pipe_raw("prices", b"c", None, 5)
        before = list(driver.store("prices").all())

        driver.crash()

        assert list(driver.store("prices").all()) == before
        assert [key for key, _ in before] == ["a"]


def test_rows_get_back_the_times_that_an_extractor_gave_them() -> None:
    """Kafka Streams restores them with the times of the records instead."""
    builder = StreamsBuilder()
    builder.table(
        "prices",
        key=str,
        value=int,
        store="prices",
        timestamp_extractor=lambda key, value, timestamp, partition_time: value * 100 - 100,
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build(optimization="all")) as driver:
        for key, price in (("a", 1), ("b", 3), ("c", 0), ("b", 2)):
            driver.pipe("prices", key, price, timestamp=7)
        before = list(driver.store("prices").all())
        driver.crash()
        assert list(driver.store("prices").all()) == before
        assert {key: (row.value, row.timestamp) for key, row in before} == {
            "a": (1, 0),
            "b": (2, 100),
        }


def test_a_row_whose_time_was_the_partitions_comes_back_with_its_records() -> None:
    def own_time(key: str, value: int, timestamp: int, partition_time: int) -> int:
        return value if value < 10 else partition_time

    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices", timestamp_extractor=own_time)
    with TopologyTestDriver(builder.build(optimization="all")) as driver:
        for key, price, time in (("a", 7, 5), ("b", 12, 6), ("c", -1, 7)):
            driver.pipe("prices", key, price, timestamp=time)
        driver.crash()
        assert {key: (row.value, row.timestamp) for key, row in driver.store("prices").all()} == {
            "a": (7, 7),
            "b": (12, 6),
        }


def without(price: int, given: Any) -> Callable[..., Any]:
    """An extractor that returns no timestamp records of a price."""

    def time_of(key: str, value: int, timestamp: int, partition_time: int) -> Any:
        if value != price:
            return timestamp
        if given is None:
            raise LookupError("no time")
        return given

    return time_of


@pytest.mark.parametrize("given", [None, 2.5, "now", 2**63], ids=["raises", "float", "str", "huge"])
@pytest.mark.parametrize("history", [None, timedelta(hours=1)], ids=["plain", "versioned"])
def test_a_record_without_a_time_that_was_left_out_does_not_end_the_restore(
    given: Any, history: timedelta | None, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    store = Materialized("prices", history=history)
    builder.table("prices", value=int, store=store, timestamp_extractor=without(2, given))
    handlers = ErrorHandlers(processing=skip, on_skip="keep")
    with TopologyTestDriver(builder.build("all"), error_handlers=handlers) as driver:
        for at, (key, price) in enumerate([("a", 1), ("b", 2), ("a", 2), ("c", 3)]):
            driver.pipe("prices", key, price, timestamp=at)
        before = [driver.store("prices").get(key) for key in "abc"]
        assert [row and row.value for row in before] == [1, None, 3]

        driver.crash(loses_disk=True)

        assert [driver.store("prices").get(key) for key in "abc"] == before
    told = [text for text in caplog.messages if "returns no timestamp" in text]
    assert len(told) == 1
    assert "store 'prices'" in told[0]
    assert "without.<locals>.time_of" in told[0]


def test_a_row_whose_time_was_the_clocks_comes_back_with_its_records() -> None:
    """As in Kafka Streams, which restores all rows so: nobody knows when it was processed."""
    builder = StreamsBuilder()
    builder.table("prices", value=int, store="prices", timestamp_extractor=wall_clock_time)
    with TopologyTestDriver(builder.build("all"), wall_clock_start_ms=7_000) as driver:
        driver.pipe("prices", "a", 1, timestamp=5)
        assert driver.store("prices").get("a").timestamp == 7_000
        driver.crash(loses_disk=True)
        assert driver.store("prices").get("a").timestamp == 5


def test_an_extractor_is_asked_again_about_the_time_that_a_record_has() -> None:
    """On topics of others -1 is no time, and not time 0."""

    def own_or_value(key: str, value: int, timestamp: int, partition_time: int) -> int:
        return timestamp if timestamp >= 0 else value

    spec = prices_of_a_topic(source_extractor=own_or_value)
    records = [
        StoredRecord("prices", 0, n, b"a", encoded(5), time) for n, time in ((0, -1), (1, 0))
    ]
    assert [write.timestamp for write in logged_fields(spec, records)] == [5, 0]


def test_a_record_that_has_no_time_is_left_out_again() -> None:
    records = [
        StoredRecord("prices", 0, n, b"a", encoded(5), time) for n, time in ((0, -1), (1, 3))
    ]
    assert [write.timestamp for write in logged_fields(prices_of_a_topic(), records)] == [3]


def prices_of_a_topic(**options: Any) -> StoreSpec:
    return StoreSpec(
        "prices", "timestamped_key_value", string, int64, source_topic="prices", **options
    )


def encoded(price: int) -> bytes:
    return price.to_bytes(8, "big")


@pytest.mark.parametrize("commit_every", [1, 100])
def test_rows_have_the_headers_after_a_restore_that_they_had(commit_every: int) -> None:
    """None: those of tables have no headers, though the store could keep them."""
    builder = StreamsBuilder()
    table = Materialized("prices", headers=True)
    builder.table("prices", key=str, value=int, store=table)
    with TopologyTestDriver(builder.build("all"), commit_every=commit_every) as driver:
        driver.pipe("prices", "a", 1, timestamp=7, headers=[("h", b"x")])
        before = list(driver.store("prices").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("prices").all()) == before


JSON_RECORDS = [
    (b'"a"', b"1"),
    (b'"a"', b"null"),  # deletes the row
    (b'"b"', b"null"),
    (b'{"x": 1, "y": 2}', b'{"v": 1}'),
    (b'{"y":2,"x":1}', b'{"v" :2}'),  # the same key in another form
    (b'{"z":1}', b"1"),
    (b'{ "z": 1 }', None),
    (b"null", b"3"),  # no key
    (b'"\\u0063"', b"1.50"),
    (b'"c"', b"1.5"),
]


@pytest.mark.parametrize("commit_every", [1, 4, 100])
@pytest.mark.parametrize(
    ("key", "value"),
    [(json, json), (json, json_of(dict[str, float] | float | None))],
    ids=["any", "floats"],
)
@pytest.mark.parametrize("as_store", [None, Materialized("prices", key=json, value=json)])
def test_a_restore_takes_the_decisions_of_the_first_reading(
    commit_every: int, key: Serde[Any], value: Serde[Any], as_store: Materialized | None
) -> None:
    builder = StreamsBuilder()
    table = builder.table("prices", key=key, value=value, store=as_store or "prices")
    orders = builder.stream("orders", key=json, value=str)
    orders.join(table, lambda order, price: f"{order}/{price}").to("out", value=str)
    with TopologyTestDriver(builder.build("all"), commit_every=commit_every) as driver:
        for at, (raw_key, raw_value) in enumerate(JSON_RECORDS):
            driver.pipe_raw("prices", raw_key, raw_value, at)
        store = driver.store("prices")
        before = list(store.all())
        assert [row.value for _, row in before] == [1.5, {"v": 2}]

        driver.crash(loses_disk=True)

        store = driver.store("prices")
        assert list(store.all()) == before
        assert (store.get("a"), store.get("c").value) == (None, 1.5)
        driver.pipe("orders", "a", "order")
        assert driver.read("out", value=str) == []


def test_a_union_with_null_deletes_its_row_after_a_restore_too() -> None:
    builder = StreamsBuilder()
    builder.table("prices", value=avro(["null", "string"]), store="prices")
    with TopologyTestDriver(builder.build("all")) as driver:
        driver.pipe_raw("prices", b"k", b"\x02\x04hi", 1)
        driver.pipe_raw("prices", b"k", b"\x00", 2)
        driver.crash(loses_disk=True)
        assert driver.store("prices").get("k") is None


def test_a_store_with_another_serde_than_its_topic_is_restored_in_its_own_form() -> None:
    builder = StreamsBuilder()
    as_json = Materialized("prices", key=json, value=json)
    builder.table("prices", key=str, value=int, store=as_json)
    with TopologyTestDriver(builder.build("all")) as driver:
        driver.pipe("prices", "a", 7, timestamp=1)
        before = list(driver.store("prices").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("prices").all()) == before
        assert [(key, row.value) for key, row in before] == [("a", 7)]


class Unreachable(ScalarSerde[str]):
    """A schema registry that does not answer."""


def test_a_registry_that_does_not_answer_fails_the_restore_and_loses_no_row() -> None:
    def decode(data: bytes) -> str:
        raise RegistryError("nobody there")

    serde = Unreachable("string", str.encode, decode)
    spec = StoreSpec("prices", "timestamped_key_value", string, serde, source_topic="prices")
    with pytest.raises(RegistryError, match="nobody there"):
        readable(spec, [LoggedWrite(b"a", b"1", 0)])


def test_a_global_table_is_read_anew_with_the_same_decisions() -> None:
    builder = StreamsBuilder()
    builder.global_table("prices", key=json, value=json, store="prices")
    builder.stream("in", value=str).to("out")
    with TopologyTestDriver(builder.build("all")) as driver:
        for at, (raw_key, raw_value) in enumerate(JSON_RECORDS):
            driver.pipe_raw("prices", raw_key, raw_value, at)
        before = list(driver.store("prices").all())
        assert [row.value for _, row in before] == [1.5, {"v": 2}]
        driver.crash(loses_disk=True)
        assert list(driver.store("prices").all()) == before


def of_prices(builder: StreamsBuilder) -> None:
    builder.table("prices", key=str, value=int, store="prices").to_stream().to("out")


def totals(builder: StreamsBuilder) -> None:
    table = builder.table("prices", key=str, value=int, store="prices")
    grouped = table.group_by(lambda key, value: ("all", value), key=str, value=int, name="by-all")
    grouped.count(store="totals")


@pytest.mark.parametrize(
    ("declare", "policy", "says"),
    [
        (of_prices, "compact", None),
        (of_prices, "delete", "rows that its retention deletes are missing after a restore"),
        (
            of_prices,
            "compact,delete",
            "rows that its retention deletes are missing after a restore",
        ),
        (totals, "compact", "whose old values are needed downstream"),
    ],
)
def test_the_start_warns_of_a_source_that_is_a_poor_changelog(
    declare: Callable[[StreamsBuilder], None],
    policy: str,
    says: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = StreamsBuilder()
    declare(builder)
    cluster = FakeCluster({"out": 1})
    cluster.create_topic("prices", 1, {"cleanup.policy": policy})
    topology = builder.build(optimization="all")
    with caplog.at_level(logging.WARNING):
        plan = run_steps(check_topics_of_others(cluster.admin(), topology, "app"))
        run_steps(prepare(cluster.admin(), plan, replication_factor=1, overrides={}))
    if says is None:
        assert caplog.text == ""
    else:
        assert says in caplog.text


@pytest.mark.parametrize("handlers", [{"processing": skip}, {"production": skip}])
def test_what_would_be_rolled_back_now_and_be_there_after_a_restore_is_refused(
    handlers: dict[str, Any], tmp_path: Path
) -> None:
    topology = failing_below_a_table("all")
    rolling_back = ErrorHandlers(**handlers)
    with pytest.raises(ConfigError, match="'prices', but be in it again after a restore"):
        TopologyTestDriver(topology, error_handlers=rolling_back)
    with pytest.raises(ConfigError, match=r"on_skip='keep'.*reuse_source_topics"):
        Application(
            topology,
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            cluster=FakeCluster({"prices": 1, "out": 1}),
            error_handlers=rolling_back,
        )
    TopologyTestDriver(failing_below_a_table("none"), error_handlers=rolling_back).close()


def test_what_a_skipped_record_left_is_there_after_a_restore() -> None:
    handlers = ErrorHandlers(processing=skip, on_skip="keep")
    with TopologyTestDriver(failing_below_a_table("all"), error_handlers=handlers) as driver:
        driver.pipe("prices", "a", 1, timestamp=1)
        driver.pipe("prices", "a", 0, timestamp=2)
        before = list(driver.store("prices").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("prices").all()) == before
        assert [row.value for _, row in before] == [0]


def failing_below_a_table(optimization: Any) -> Topology:
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int, store="prices").to_stream()
    prices.map_values(lambda price: 10 // price, value=int).to("out")
    return builder.build(optimization=optimization)


@pytest.mark.parametrize("wrong", [None, 1.5, "raises"], ids=str)
def test_records_whose_extractor_fails_are_left_out_again(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """They were skipped then; a restore that failed for them would never end."""

    def extract(key: str, value: str, timestamp: int, partition_time: int) -> Any:
        if value != "bad":
            return timestamp
        if wrong == "raises":
            raise ValueError("no time in it")
        return wrong

    builder = StreamsBuilder()
    builder.table("in", key=str, value=str, store="rows", timestamp_extractor=extract)
    topology = builder.build(optimization="all")
    handlers = ErrorHandlers(processing=skip, on_skip="keep")
    with TopologyTestDriver(topology, error_handlers=handlers) as driver:
        driver.pipe_all("in", [("a", "ok", 1), ("b", "bad", 2), ("a", "bad", 3), ("c", "ok", 4)])
        before = list(driver.store("rows").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("rows").all()) == before
        assert [key for key, _ in before] == ["a", "c"]
    assert "the timestamp extractor" in caplog.text
    assert "test_restore_source_topic.py" in caplog.text


def test_numpys_times_come_back_as_ints() -> None:
    def extract(key: str, value: str, timestamp: int, partition_time: int) -> Any:
        return np.int64(timestamp)

    builder = StreamsBuilder()
    builder.table("in", key=str, value=str, store="rows", timestamp_extractor=extract)
    with TopologyTestDriver(builder.build(optimization="all")) as driver:
        driver.pipe("in", "a", "x", timestamp=7)
        driver.crash(loses_disk=True)
        row = driver.store("rows").get("a")
        assert row.timestamp == 7
        assert type(row.timestamp) is int
