"""A processor lives from a restore to an abort, a move or the end, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.contracts.errors import AbortableError
from logstate.contracts.records import Record
from logstate.testing import Fault, TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, key_value_store
from logstate.topology.processor.processor_context import ProcessorContext
from tests.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send


class Numbered(Processor[str, str, str, str]):
    """Numbers records by an attribute, which starts at what the store said when it was made."""

    made = 0
    closed = 0

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        Numbered.made += 1
        self.store = context.store("last")
        self.number: int = self.store.get("number") or 0

    def process(self, record: Record[str, str]) -> None:
        self.number += 1
        self.store.put("number", self.number)
        self.context.forward(record._replace(value=str(self.number)))

    def close(self) -> None:
        Numbered.closed += 1


@pytest.fixture(autouse=True)
def _from_nothing() -> None:
    Numbered.made = Numbered.closed = 0


def numbered(builder: StreamsBuilder) -> None:
    stores = key_value_store("last", str, int)
    stream = builder.stream("in", key=str, value=str)
    stream.process(Numbered, stores=stores).to("out", key=str, value=str)


def test_what_a_processor_keeps_in_attributes_does_not_survive_an_abort() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, numbered).start().until_running()
    send(cluster, "a", "b")
    rig.commit()
    send(cluster, "c", "d")
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.commit()
    rig.until_running()
    rig.commit()
    assert [value for _, value in outputs(cluster)] == ["1", "2", "3", "4"]
    assert (Numbered.made, Numbered.closed) == (2, 1)


def test_a_processor_is_made_when_its_stores_are_restored() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, numbered).start().until_running()
    send(cluster, "a", "b")
    rig.commit()
    rig.stop()
    rig = WorkerRig(cluster, numbered, name="two", disk=Disk()).start().until_running()
    send(cluster, "c")
    rig.commit()
    assert [value for _, value in outputs(cluster)] == ["1", "2", "3"]


def test_a_processor_of_a_crashed_driver_finds_its_store_as_it_was(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    numbered(builder)
    with TopologyTestDriver(builder.build(), state_dir=tmp_path) as driver:
        driver.pipe("in", "k", "a")
        driver.crash(loses_disk=True)
        driver.pipe("in", "k", "b")
        assert [value for _, value in driver.read("out", value=str)] == ["1", "2"]


class CannotClose(Numbered):
    def close(self) -> None:
        raise OSError("no")


def test_a_processor_that_cannot_close_does_not_keep_an_abort_from_going_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stores = key_value_store("last", str, int)
        stream.process(CannotClose, stores=stores).to("out", key=str, value=str)

    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, declare).start().until_running()
    send(cluster, "a")
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.commit()
    rig.until_running()
    rig.commit()
    assert [value for _, value in outputs(cluster)] == ["1"]
    assert "closing a processor failed" in caplog.text
