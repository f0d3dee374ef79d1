"""Topics that change beneath a running application: it reads what is new, or stops and says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, StreamsBuilder
from logstate.contracts.errors import LogstateError
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from logstate.worker import planned_topics
from tests import patience


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found is the same every 10 ms as every half minute."""
    monkeypatch.setattr(planned_topics, "_LOOK_EVERY_MS", 10.0)
    monkeypatch.setattr(planned_topics, "_SOON_MS", 5.0)


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
