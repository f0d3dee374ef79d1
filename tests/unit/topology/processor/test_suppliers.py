"""A supplier makes a processor of its own for every task, in the driver and on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, Record
from logstate.contracts.errors import ProcessingError
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, Topology, ValueTransformer


class Pass(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)


class Same(ValueTransformer[str, int, int]):
    def transform(self, key: str, value: int | None) -> int | None:
        return value


def processed(supplier: Callable[[], Any]) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(supplier, key=str, value=int).to("out")
    return builder.build()


def transformed(supplier: Callable[[], Any]) -> Topology:
    builder = StreamsBuilder()
    rows = builder.table("in", value=int, store="rows")
    rows.transform_values(supplier, value=int).to_stream().to("out")
    return builder.build()


def filling(supplier: Callable[[], Any]) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process_values(supplier, value=int).to("out")
    return builder.build()


MAKERS = [processed, transformed, filling]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("made", "found"),
    [
        (None, "returned None, not a"),
        (5, r"returned 5 \(int\), not a|returned 5, not a"),
        (int, "returned the class int, not a .* Return an object of it"),
        ({"process": 1}, "not a"),
    ],
)
def test_what_is_no_processor_is_refused_by_name(
    make: Callable[[Callable[[], Any]], Topology], made: object, found: str
) -> None:
    with pytest.raises(ProcessingError, match=found) as caught:
        TopologyTestDriver(make(lambda: made))
    assert "test_suppliers.py" in str(caught.value)


@pytest.mark.parametrize(("make", "one"), [(processed, Pass()), (transformed, Same())])
def test_one_object_for_two_tasks_is_refused(
    make: Callable[[Callable[[], Any]], Topology], one: object
) -> None:
    topology = make(lambda: one)
    with TopologyTestDriver(topology) as driver:
        with pytest.raises(ProcessingError, match=r"returned the same .* twice"):
            TopologyTestDriver(topology)
        driver.pipe("in", "ada", 1)
        assert driver.read("out", value=int) == [("ada", 1)]
    TopologyTestDriver(topology).close()  # the one before is closed


def test_a_task_that_is_closed_gives_its_processor_back() -> None:
    with TopologyTestDriver(processed(Pass)) as driver:
        driver.pipe("in", "ada", 1)
        driver.crash()
        driver.pipe("in", "ada", 2)
        assert driver.read("out", value=int) == [("ada", 1), ("ada", 2)]


def test_an_application_with_two_tasks_refuses_it_too(tmp_path: Path) -> None:
    cluster, one = FakeCluster(), Pass()
    cluster.create_topic("in", 2)
    cluster.create_topic("out", 2)
    app = Application(
        processed(lambda: one),
        application_id="app",
        bootstrap="fake:1",
        state_dir=tmp_path,
        cluster=cluster,
    )
    with pytest.raises(ProcessingError, match="returned the same Pass twice"), app:
        app.wait_until_running(timedelta(seconds=20))
