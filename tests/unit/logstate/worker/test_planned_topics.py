"""Topics that change beneath a running application: it reads what is new, or stops and says why."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, StreamsBuilder
from logstate.app.instance.restarts import RESTARTS_MAX
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from tests import patience


def passed_on(builder: StreamsBuilder) -> None:
    builder.stream("in", value=str).to("out")


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", value=str).group_by_key().count(store="n").to_stream().to("out", value=int)


def counted_elsewhere(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", value=str).group_by(lambda k, v: v, key=str, name="words")
    grouped.count(store="n").to_stream().to("out", value=int)


def looked_up(builder: StreamsBuilder) -> None:
    rows = builder.global_table("rows", value=str, store="rows")
    stream = builder.stream("in", value=str)
    stream.join(rows, lambda a, b: a + b, key_mapper=lambda k, v: k, value=str).to("out")


def built(declare: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    return builder.build()


@contextmanager
def running(cluster: FakeCluster, topology: Topology, state: Path) -> Iterator[Application]:
    app = Application(
        topology,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state,
        commit_interval=timedelta(milliseconds=20),
        topics_interval=timedelta(milliseconds=10),
        cluster=cluster,
    )
    app.start()
    try:
        app.wait_until_running(timedelta(seconds=patience.PATIENCE_S))
        yield app
    finally:
        try:
            app.close()
        except LogstateError:
            assert not app.is_alive


def fill(cluster: FakeCluster, topic: str, count: int, *, partitions: int) -> None:
    for number in range(count):
        place = number % partitions
        cluster.produce(topic, b"k%d" % number, b"v", timestamp=number + 1, partition=place)


def failure_of(app: Application) -> str:
    patience.until(lambda: not app.is_alive, "the application goes on")
    with pytest.raises(LogstateError) as caught:
        app.close()
    return str(caught.value)


def test_without_state_new_partitions_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster({"in": 2, "out": 1})
    with (
        caplog.at_level(logging.ERROR, "logstate"),
        running(cluster, built(passed_on), tmp_path),
    ):
        fill(cluster, "in", 20, partitions=2)
        cluster.wait_for_records("out", 20, patience.PATIENCE_S)
        cluster.add_partitions("in", 4)
        fill(cluster, "in", 20, partitions=4)
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    assert len(cluster.records("out")) == 40
    assert "topics have changed" in caplog.text


def test_new_partitions_of_a_global_table_are_read(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "rows": 1, "out": 1})
    with running(cluster, built(looked_up), tmp_path) as app:
        cluster.add_partitions("rows", 2)
        cluster.produce("rows", b"k1", b"row", partition=1)

        def is_there() -> bool:
            try:
                return app.store("rows").get("k1") is not None
            except LogstateError:  # between two workers
                return False

        patience.until(is_there)
        cluster.produce("in", b"k1", b"v")
        cluster.wait_for_records("out", 1, patience.PATIENCE_S)
    assert cluster.records("out")[0].value() == b"vrow"


def test_a_global_table_whose_log_was_cut_off_above_a_deletion_does_not_keep_the_row(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster({"in": 1, "rows": 1, "out": 1})
    cluster.produce("rows", b"k1", b"row")
    with running(cluster, built(looked_up), tmp_path) as app:
        assert app.store("rows").get("k1") is not None
        with cluster.lock:  # nobody reads in between
            cluster.produce("rows", b"k1", None)
            cluster.produce("rows", b"k2", b"row")
            cluster.topic("rows").logs[0].delete_before(2)

        def is_rebuilt() -> bool:
            try:
                return app.store("rows").get("k2") is not None
            except LogstateError:  # between two workers
                return False

        patience.until(is_rebuilt)
        assert app.store("rows").get("k1") is None


@pytest.mark.parametrize("declare", [counted, counted_elsewhere])
def test_with_state_it_stops_and_names_the_remedy(
    declare: Callable[[StreamsBuilder], None], tmp_path: Path
) -> None:
    cluster = FakeCluster({"in": 2, "out": 1})
    with running(cluster, built(declare), tmp_path) as app:
        fill(cluster, "in", 4, partitions=2)
        cluster.wait_for_records("out", 1, patience.PATIENCE_S)
        cluster.add_partitions("in", 4)
        said = failure_of(app)
    assert "logstate reshard" in said
    assert "partition" in said


@pytest.mark.parametrize(
    ("declare", "topic"),
    [(passed_on, "in"), (counted, "in"), (looked_up, "rows")],
)
def test_a_source_that_is_deleted_stops_it(
    declare: Callable[[StreamsBuilder], None], topic: str, tmp_path: Path
) -> None:
    cluster = FakeCluster({"in": 1, "rows": 1, "out": 1})
    with running(cluster, built(declare), tmp_path) as app:
        cluster.delete_topic(topic)
        assert f"source topic {topic!r} does not exist" in failure_of(app)


def test_a_source_that_is_made_again_stops_it(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with running(cluster, built(counted), tmp_path) as app:
        fill(cluster, "in", 3, partitions=1)
        cluster.wait_for_records("out", 1, patience.PATIENCE_S)
        patience.until(lambda: cluster.committed_offset("app", "in") == 3)
        cluster.recreate_topic("in")
        said = failure_of(app)
    assert "'in'" in said or "in-0" in said
    assert "reset" in said


@pytest.mark.parametrize("topic", ["app-n-changelog", "app-words-repartition"])
def test_an_internal_topic_of_other_partitions_stops_it(topic: str, tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 2, "out": 1})
    with running(cluster, built(counted_elsewhere), tmp_path) as app:
        cluster.add_partitions(topic, 5)
        said = failure_of(app)
    assert topic in said
    assert "has 5 partitions and needs 2" in said


def test_a_topic_that_one_broker_does_not_know_for_a_moment_is_not_missed(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with running(cluster, built(passed_on), tmp_path) as app:
        looks: list[Any] = []
        admin = type(cluster.admin())
        describe = admin.describe_topics

        def forgetful(self: Any, topics: Any, beginning: Any = None) -> Any:
            looks.append(topics)
            found = describe(self, topics, beginning)
            return {} if len(looks) % 2 else found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(admin, "describe_topics", forgetful)
            patience.until(lambda: len(looks) > 6)
        assert app.is_alive


def passed_on_by_pattern(builder: StreamsBuilder) -> None:
    builder.stream(re.compile("in-.*"), value=str).to("out")


def counted_by_pattern(builder: StreamsBuilder) -> None:
    grouped = builder.stream(re.compile("in-.*"), value=str).group_by_key()
    grouped.count(store="n").to_stream().to("out", value=int)


def counted_elsewhere_by_pattern(builder: StreamsBuilder) -> None:
    stream = builder.stream(re.compile("in-.*"), value=str)
    grouped = stream.group_by(lambda k, v: k, key=str, name="words")
    grouped.count(store="n").to_stream().to("out", value=int)


BY_PATTERN = (passed_on_by_pattern, counted_by_pattern, counted_elsewhere_by_pattern)


def values_of(cluster: FakeCluster) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in cluster.records("out"):
        found.setdefault(record.key(), []).append(record.value())
    return found


@pytest.mark.parametrize("declare", BY_PATTERN)
def test_a_new_topic_that_a_pattern_matches_is_read_from_its_beginning(
    declare: Callable[[StreamsBuilder], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster({"in-a": 2, "out": 1})
    with caplog.at_level(logging.WARNING, "logstate"), running(cluster, built(declare), tmp_path):
        fill(cluster, "in-a", 10, partitions=2)
        cluster.wait_for_records("out", 10, patience.PATIENCE_S)
        cluster.create_topic("in-b", 2)
        fill(cluster, "in-b", 10, partitions=2)
        cluster.wait_for_records("out", 20, patience.PATIENCE_S)
        cluster.create_topic("in-c", 2)
        fill(cluster, "in-c", 10, partitions=2)
        cluster.wait_for_records("out", 30, patience.PATIENCE_S)
        fill(cluster, "in-a", 10, partitions=2)
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    counts = [n.to_bytes(8, "big") for n in (1, 2, 3, 4)]
    wanted = [b"v"] * 4 if declare is passed_on_by_pattern else counts
    assert values_of(cluster) == {b"k%d" % number: wanted for number in range(10)}
    assert not [one.message for one in caplog.records if one.name.startswith("logstate")]


def test_many_new_topics_do_not_exhaust_the_restarts_of_a_worker(tmp_path: Path) -> None:
    cluster = FakeCluster({"in-0": 1, "out": 1})
    with running(cluster, built(passed_on_by_pattern), tmp_path) as app:
        for number in range(1, RESTARTS_MAX + 4):
            cluster.create_topic(f"in-{number}", 1)
            fill(cluster, f"in-{number}", 1, partitions=1)
            cluster.wait_for_records("out", number, patience.PATIENCE_S)
        assert app.is_alive


def test_two_instances_read_a_new_topic_and_count_each_record_once(tmp_path: Path) -> None:
    cluster = FakeCluster({"in-a": 4, "out": 1})
    topology = built(counted_by_pattern)
    with running(cluster, topology, tmp_path / "a"), running(cluster, topology, tmp_path / "b"):
        fill(cluster, "in-a", 20, partitions=4)
        cluster.create_topic("in-b", 4)
        for _ in range(3):
            fill(cluster, "in-b", 20, partitions=4)
            fill(cluster, "in-a", 20, partitions=4)
        cluster.wait_for_records("out", 140, patience.PATIENCE_S)
    counts = [n.to_bytes(8, "big") for n in range(1, 8)]
    assert values_of(cluster) == {b"k%d" % number: counts for number in range(20)}


@pytest.mark.parametrize(
    ("declare", "partitions", "why"),
    [
        (counted_by_pattern, 3, "keeps state and reads topics of different partition counts"),
        (counted_elsewhere_by_pattern, 3, "'app-words-repartition' has 2 partitions, and would"),
    ],
)
def test_a_new_topic_that_a_start_would_refuse_is_left_out_with_one_warning(
    declare: Callable[[StreamsBuilder], None],
    partitions: int,
    why: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({"in-a": 2, "out": 1})

    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if "a pattern of" in one.getMessage()]

    with (
        caplog.at_level(logging.WARNING, "logstate"),
        running(cluster, built(declare), tmp_path) as app,
        looks_of(cluster) as looks,
    ):
        cluster.create_topic("in-b", partitions)
        fill(cluster, "in-b", 9, partitions=partitions)
        patience.until(said)
        before = len(looks)
        patience.until(lambda: len(looks) > before + 6)
        fill(cluster, "in-a", 4, partitions=2)
        cluster.wait_for_records("out", 4, patience.PATIENCE_S)
        assert app.is_alive
    assert len(said()) == 1
    assert why in said()[0]
    assert values_of(cluster).keys() == {b"k%d" % number for number in range(4)}


def test_a_topic_that_two_patterns_match_is_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(builder: StreamsBuilder) -> None:
        builder.stream(re.compile("in-.*"), value=str, name="first").to("out")
        builder.stream(re.compile(".*-b"), value=str, name="second").to("out")

    cluster = FakeCluster({"in-a": 1, "x-b": 1, "out": 1})
    with (
        caplog.at_level(logging.WARNING, "logstate"),
        running(cluster, built(declare), tmp_path),
        looks_of(cluster) as looks,
    ):
        cluster.create_topic("in-b", 1)
        patience.until(lambda: len(looks) > 8)
        fill(cluster, "in-a", 1, partitions=1)
        cluster.wait_for_records("out", 1, patience.PATIENCE_S)
    said = [one.getMessage() for one in caplog.records if "is read twice" in one.getMessage()]
    assert len(said) == 1
    assert "'in-b'" in said[0]


def test_a_new_topic_is_not_read_without_an_offset_if_there_must_be_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def declare(builder: StreamsBuilder) -> None:
        builder.stream(re.compile("in-.*"), value=str, offset_reset="none").to("out")

    cluster = FakeCluster({"in-a": 1, "out": 1})
    cluster.admin().commit_without_members("app", {TopicPartition("in-a", 0): 0})
    with caplog.at_level(logging.WARNING, "logstate"), running(cluster, built(declare), tmp_path):
        cluster.create_topic("in-b", 1)
        patience.until(lambda: "no offset of in-b is committed" in caplog.text)
        fill(cluster, "in-a", 1, partitions=1)
        cluster.wait_for_records("out", 1, patience.PATIENCE_S)


@contextmanager
def looks_of(cluster: FakeCluster) -> Iterator[list[int]]:
    """Counts the looks for the topics of patterns."""
    looks: list[int] = []
    admin = type(cluster.admin())
    names = admin.topic_names

    def counting(self: Any) -> list[str]:
        looks.append(1)
        return names(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin, "topic_names", counting)
        yield looks
