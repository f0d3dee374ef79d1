"""What a sink knows of partition counts: partitioners, windowed keys, topics that are chosen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    ErrorHandlers,
    ProcessingError,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
    serdes,
    skip,
)
from logstate.contracts.partitioner import partition_of
from logstate.testing import FakeCluster
from logstate.testing.fake.admin import FakeAdmin
from logstate.topology.plan.plan import Topology
from tests import patience

KEYS = [b"k%d" % number for number in range(40)]
Destination = str | Callable[..., str]


def chosen(key: Any, value: Any, place: Any) -> str:
    return "out"


def partitioned(to: Destination, told: set[tuple[str, int]]) -> Topology:
    def by_number(topic: str, key: str, value: str, count: int) -> int:
        told.add((topic, count))
        return int(key[1:]) % count

    builder = StreamsBuilder()
    builder.stream("in", value=str).to(to, partitioner=by_number)
    return builder.build()


def windowed(to: Destination) -> Topology:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(seconds=1))
    counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count(store="n")
    counts.to_stream().to(to, value=int)
    return builder.build()


def started(topology: Topology, cluster: FakeCluster, state: Path, **options: Any) -> Application:
    return Application(
        topology,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
        **options,
    )


def fill(cluster: FakeCluster) -> None:
    for time, key in enumerate(KEYS):
        cluster.produce("in", key, b"x", timestamp=time + 1)


@pytest.mark.parametrize("to", ["out", chosen])
def test_a_partitioner_is_told_how_many_partitions_there_are(
    to: Destination, tmp_path: Path
) -> None:
    told: set[tuple[str, int]] = set()
    cluster = FakeCluster({"in": 2, "out": 4})
    fill(cluster)
    with started(partitioned(to, told), cluster, tmp_path):
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    assert told == {("out", 4)}
    assert [len(cluster.records("out", partition)) for partition in range(4)] == [10] * 4


@pytest.mark.parametrize("to", ["out", chosen])
def test_a_windowed_key_lies_where_its_inner_key_does(to: Destination, tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 4, "out": 4})
    fill(cluster)
    with started(windowed(to), cluster, tmp_path):
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    for partition in range(4):
        found = {bytes(one.key() or b"")[:-8] for one in cluster.records("out", partition)}
        assert found == {key for key in KEYS if partition_of(key, 4) == partition}


def test_a_repartition_topic_has_a_windowed_key_where_all_of_it_belongs(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(seconds=1))
    counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count(store="n")
    keys = serdes.windowed(str, windows)
    counts.to_stream().repartition(name="again").to("out", value=int)
    rows = counts.group_by(lambda key, value: (key, value), key=keys, value=int, name="rows")
    rows.count(store="rows")
    cluster = FakeCluster({"in": 4, "out": 4})
    fill(cluster)
    with started(builder.build(), cluster, tmp_path):
        for topic in ("app-again-repartition", "app-rows-repartition"):
            cluster.wait_for_records(topic, 40, patience.PATIENCE_S)
    for topic in ("app-again-repartition", "app-rows-repartition"):
        for partition in range(4):
            found = {bytes(one.key() or b"") for one in cluster.records(topic, partition)}
            assert found
            assert {partition_of(key, 4) for key in found} == {partition}


def test_the_cluster_is_asked_once_for_a_chosen_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    describe: Callable[..., Any] = FakeAdmin.describe_topics

    def noted(self: Any, topics: Any, beginning: Any = None) -> Any:
        asked.append(list(topics))
        return describe(self, topics, beginning)

    monkeypatch.setattr(FakeAdmin, "describe_topics", noted)
    cluster = FakeCluster({"in": 1, "out": 4})
    fill(cluster)
    with started(partitioned(chosen, set()), cluster, tmp_path):
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    assert asked.count(["out"]) == 1


@pytest.mark.parametrize("to", ["out", chosen])
def test_a_partitioner_is_told_of_partitions_that_are_added(
    to: Destination, tmp_path: Path
) -> None:
    told: set[tuple[str, int]] = set()
    cluster = FakeCluster({"in": 1, "out": 1})
    often = timedelta(milliseconds=10)
    with started(partitioned(to, told), cluster, tmp_path, topics_interval=often) as app:
        fill(cluster)
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
        cluster.add_partitions("out", 3)

        def is_told() -> bool:
            fill(cluster)
            return ("out", 3) in told

        patience.until(is_told)
        assert app.is_alive


def test_a_chosen_topic_that_does_not_exist_is_named(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1})
    fill(cluster)
    app = started(partitioned(chosen, set()), cluster, tmp_path)
    app.start(waits=False)
    patience.until(lambda: not app.is_alive)
    with pytest.raises(ProcessingError, match=r"topic 'out'.*does not exist.*Create it"):
        app.close()


@pytest.mark.parametrize("to", ["out", chosen])
@pytest.mark.parametrize(("topics", "count"), [({"out": 4}, 4), ({}, 1), (["out"], 1)])
def test_the_driver_tells_the_counts_that_it_was_given(
    to: Destination, topics: Any, count: int
) -> None:
    told: set[tuple[str, int]] = set()
    with TopologyTestDriver(partitioned(to, told), topics=topics) as driver:
        driver.pipe("in", "k7", "x")
        assert driver.outputs[0].partition == 7 % count
    assert told == {("out", count)}


def test_the_driver_places_a_windowed_key_by_its_inner_key() -> None:
    with TopologyTestDriver(windowed(chosen), topics={"out": 4}) as driver:
        for time, key in enumerate(KEYS):
            driver.pipe("in", key.decode(), "x", timestamp=time + 1)
        assert [one.partition for one in driver.outputs] == [partition_of(key, 4) for key in KEYS]


@pytest.mark.parametrize("to", ["out", chosen])
def test_a_partition_that_a_topic_does_not_have_is_the_fault_of_its_record(
    to: Destination, tmp_path: Path
) -> None:
    """Found when the record is processed, not when it is delivered."""
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.to(to, partitioner=lambda topic, key, value, count: int(key[1:]))
    cluster = FakeCluster({"in": 1, "out": 4})
    fill(cluster)
    handlers, topology = ErrorHandlers(processing=skip), builder.build()
    with started(topology, cluster, tmp_path, error_handlers=handlers) as app:
        cluster.wait_for_records("out", 4, patience.PATIENCE_S)
        patience.until(lambda: cluster.committed_offset("app", "in") == len(KEYS))
        assert app.is_alive
    assert [record.key() for p in range(4) for record in cluster.records("out", p)] == KEYS[:4]
    with TopologyTestDriver(topology, topics={"out": 4}, error_handlers=handlers) as driver:
        driver.pipe_all("in", [(key.decode(), "x", 1) for key in KEYS])
        assert [record.key for record in driver.outputs] == KEYS[:4]
