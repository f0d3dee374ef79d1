"""What processors may ask of the application around them: settings, a directory, metrics."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, Processor, Record, StoreError, StreamsBuilder, TopologyTestDriver
from logstate.metrics.prometheus import exposition
from logstate.testing import FakeCluster, MockProcessorContext
from logstate.topology import ValueTransformer, key_value_store
from logstate.topology.plan.plan import Topology
from tests import patience


class Watching(Processor[str, str, str, str]):
    """Measures, keeps a file, and tells what it knows of its settings."""

    def init(self, context: Any) -> None:
        self.context = context
        self.seen = context.metrics.counter("seen_total", "Records seen.", kind="web")
        self.longest = context.metrics.gauge("longest_chars", "Longest value.", unit="characters")
        self.lengths = context.metrics.histogram(
            "length_chars", "Lengths.", unit="characters", buckets=(1, 10)
        )
        context.schedule(timedelta(seconds=1), "wall_clock", self.tick)

    def tick(self, _now: int) -> None:
        self.context.metrics.counter("ticks_total", "Ticks.").add()

    def process(self, record: Record[str, str]) -> None:
        self.seen.add()
        self.longest.set(len(record.value))
        self.lengths.observe(len(record.value))
        file = self.context.state_dir / "values.txt"
        with file.open("a") as values:
            values.write(record.value)
        id_ = self.context.application_config["application_id"]
        self.context.forward(record._replace(value=f"{id_} {file.read_text()}"))


def watched() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.process(Watching, key=str, value=str, name="watch").to("out")
    return builder.build()


SEEN = {
    "kind": "counter",
    "unit": "",
    "meaning": "Records seen.",
    "series": [{"labels": {"task": "0_0", "node": "watch", "kind": "web"}, "value": 2}],
}


def test_the_driver_gives_settings_files_and_metrics() -> None:
    with TopologyTestDriver(watched(), application_id="shop") as driver:
        driver.pipe_all("in", [("a", "x", 1), ("a", "four", 2)])
        driver.advance_wall_clock(timedelta(seconds=1))
        assert driver.read("out", value=str) == [("a", "shop x"), ("a", "shop xfour")]
        found = driver.metrics()
    assert found["seen_total"] == SEEN
    assert found["longest_chars"]["series"][0]["value"] == 4
    assert found["ticks_total"]["series"][0]["value"] == 1
    buckets = found["length_chars"]["series"][0]
    assert (buckets["sum"], buckets["buckets"]) == (5, [["1", 1], ["10", 2], ["+Inf", 2]])


def test_files_of_a_driver_lie_below_its_directory_and_outlive_it(tmp_path: Path) -> None:
    for expected in ("app x", "app xx"):
        with TopologyTestDriver(watched(), application_id="app", state_dir=tmp_path) as driver:
            driver.pipe("in", "a", "x")
            assert driver.read("out", value=str) == [("a", expected)]
    assert (tmp_path / "files" / "values.txt").read_text() == "xx"


def test_an_application_gives_settings_files_and_metrics(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"a", b"x", timestamp=1)
    cluster.produce("in", b"a", b"four", timestamp=2)
    with Application(
        watched(),
        application_id="shop",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    ) as app:
        cluster.wait_for_records("out", 2, patience.PATIENCE_S)
        assert app.metrics()["seen_total"] == SEEN
        assert app.metrics()["records_consumed_total"]["series"]
        text = exposition(app.metrics_registry, "shop").decode()
    series = '{application="shop",kind="web",node="watch",task="0_0"} 2.0'
    assert f"logstate_seen_total{series}" in text
    assert [one.value() for one in cluster.records("out")] == [b"shop x", b"shop xfour"]
    assert (tmp_path / "shop" / "0_0" / "files" / "values.txt").read_text() == "xfour"


class Settings(Processor[str, str, str, str]):
    """Forwards a setting."""

    def process(self, record: Record[str, str]) -> None:
        config = self.context.application_config
        self.context.forward(record._replace(value=str(config[record.value])))


def test_settings_are_by_the_names_of_parameters_and_hold_no_secret(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Settings, key=str, value=str).to("out")
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"a", b"commit_interval", timestamp=1)
    cluster.produce("in", b"a", b"state_dir", timestamp=2)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        kafka={"sasl.password": "hidden"},
        cluster=cluster,
    )
    with app:
        cluster.wait_for_records("out", 2, patience.PATIENCE_S)
    assert [one.value() for one in cluster.records("out")] == [
        b"0:00:00.020000",
        str(tmp_path).encode(),
    ]
    config = app._settings.for_processors()
    assert "hidden" not in repr(config)
    with pytest.raises(TypeError):
        config["slot"] = 1  # type: ignore[index]


class Measured(ValueTransformer[str, str, str]):
    """Counts rows."""

    def init(self, context: Any) -> None:
        self.context = context

    def transform(self, key: str, value: str | None) -> str | None:
        self.context.metrics.counter("rows_total", "Rows.").add()
        return value and f"{value} {self.context.application_config['application_id']}"


def test_a_transformer_has_them_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=str, store="rows")
    table.transform_values(Measured, value=str, name="measure").to_stream().to("out")
    with TopologyTestDriver(builder.build(), application_id="shop") as driver:
        driver.pipe("in", "a", "x")
        assert driver.read("out", value=str) == [("a", "x shop")]
        (series,) = driver.metrics()["rows_total"]["series"]
    assert series == {"labels": {"task": "0_0", "node": "measure"}, "value": 1}


class Global(Processor[str, str, Any, Any]):
    """Fills a global store."""

    def init(self, context: Any) -> None:
        self.context = context
        self.rows = context.store("cities")

    def process(self, record: Record[str, str]) -> None:
        self.context.metrics.counter("cities_total", "Cities.").add()
        self.rows.put(record.key, record.value)
        if record.value == "files":
            _ = self.context.state_dir


def test_the_processor_of_a_global_store_measures_and_has_no_directory(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    cities = key_value_store("cities", str, str)
    builder.add_global_store(cities, "cities", Global, value=str)
    builder.stream("in", value=str).to("out")
    topology = builder.build()
    with TopologyTestDriver(topology) as driver:
        driver.pipe("cities", "1", "Oslo")
        assert driver.metrics()["cities_total"]["series"][0]["value"] == 1
        with pytest.raises(Exception, match="has none") as failure:
            driver.pipe("cities", "1", "files")
        assert isinstance(failure.value.__cause__ or failure.value, StoreError)
    cluster = FakeCluster({"cities": 1, "in": 1, "out": 1})
    cluster.produce("cities", b"1", b"Oslo", timestamp=1)
    with Application(
        topology, application_id="app", bootstrap="fake:9092", state_dir=tmp_path, cluster=cluster
    ) as app:
        assert app.metrics()["cities_total"]["series"][0]["value"] == 1


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda own: own.counter("seen", "S."), "seen_total"),
        (lambda own: own.gauge("Seen", "S."), "not a valid name"),
        (lambda own: own.counter("commit_total", "S."), "belongs to the library"),
        (lambda own: own.gauge("seen", "S.", task="x"), "given by the library"),
        (lambda own: own.gauge("seen", "S.", Kind="x"), "cannot have the label 'Kind'"),
        (lambda own: own.histogram("seen", "S.", buckets=(2, 1)), "increasing upper bounds"),
        (lambda own: own.histogram("seen", "S.", buckets=()), "increasing upper bounds"),
        (lambda own: (own.gauge("seen", "S."), own.gauge("seen", "T.")), "one meaning"),
        (lambda own: (own.gauge("seen", "S."), own.gauge("seen", "S.", a=1)), "one meaning"),
        (lambda own: (own.gauge("seen", "S."), own.histogram("seen", "S.")), "one meaning"),
    ],
)
def test_a_metric_that_cannot_be_is_refused_with_its_name(make: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make(MockProcessorContext().metrics)


def test_the_same_name_and_labels_are_the_same_figure() -> None:
    context = MockProcessorContext()
    for amount in (1, 2):
        context.metrics.counter("seen_total", "Seen.", kind="web").add(amount)
    context.metrics.counter("seen_total", "Seen.", kind="app").add(5)
    assert [one["value"] for one in context.measured["seen_total"]["series"]] == [5, 3]


def test_a_mock_context_gives_what_it_was_given(tmp_path: Path) -> None:
    context = MockProcessorContext(application_config={"slot": 3}, state_dir=tmp_path)
    assert context.application_config["slot"] == 3
    assert context.state_dir.is_relative_to(tmp_path)
    assert MockProcessorContext(application_id="shop").application_config["application_id"] == (
        "shop"
    )
    assert MockProcessorContext().state_dir.is_dir()
