"""A source topic that serves as changelog restores what processing stored, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from logstate.contracts.seams import run_steps
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topology import StreamsBuilder


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
        (of_prices, "compact,delete", None),
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
