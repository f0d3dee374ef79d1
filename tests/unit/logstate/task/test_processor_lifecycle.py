"""A processor lives from a restore to an abort, a move or the end, and no longer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, ErrorHandlers, dead_letter, serdes
from logstate.contracts.errors import AbortableError, ProcessingError
from logstate.contracts.records import Record
from logstate.testing import Fault, TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, ValueTransformer, key_value_store
from logstate.topology.processor.processor_context import ProcessorContext
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send


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


class PutsAtTheEnd(Numbered):
    def close(self) -> None:
        self.store.put("number", 100)


class ForwardsAtTheEnd(Numbered):
    def close(self) -> None:
        self.context.forward(Record("k", "100", 0))


AT_THE_END = {
    PutsAtTheEnd: r"task 0_0, node 'p', .*: store 'last' was written to in close\(\), after the la",
    ForwardsAtTheEnd: r"task 0_0, node 'p', .*: Processor 'p' forwarded a record in close\(\), aft",
}


@pytest.mark.parametrize("closes", AT_THE_END)
def test_what_close_writes_after_an_abort_is_told_and_not_part_of_the_next_commit(
    closes: type[Numbered], caplog: pytest.LogCaptureFixture
) -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stores = key_value_store("last", str, int)
        stream.process(closes, stores=stores, name="p").to("out", key=str, value=str)

    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, declare).start().until_running()
    send(cluster, "a")
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.commit()
    rig.until_running()
    rig.commit()
    send(cluster, "b")
    rig.commit()
    assert [value for _, value in outputs(cluster)] == ["1", "2"]
    assert re.search(AT_THE_END[closes], caplog.text)


@pytest.mark.parametrize("closes", AT_THE_END)
def test_what_close_writes_at_the_end_would_be_lost_and_is_told(closes: type[Numbered]) -> None:
    builder = StreamsBuilder()
    stores = key_value_store("last", str, int)
    stream = builder.stream("in", key=str, value=str)
    stream.process(closes, stores=stores, name="p").to("out", key=str, value=str)
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "k", "a")
    with pytest.raises(ProcessingError, match=AT_THE_END[closes]) as raised:
        driver.close()
    assert raised.value.node == "p"


class BadInit(Numbered):
    def init(self, context: ProcessorContext) -> None:
        raise OSError("no model")


class BadTransformer(ValueTransformer[str, str, str]):
    def init(self, context: Any) -> None:
        raise KeyError("model")

    def transform(self, key: str, value: str | None) -> str | None:
        return value


class BadSerde(serdes.Serde[str]):
    def serializer(self, topic: str, is_key: bool) -> Callable[[str], bytes]:
        raise LookupError("no table of codes")

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        raise LookupError("no table of codes")

    def describe(self) -> dict[str, Any]:
        return {"format": "coded", "schema": None}


def bad_supplier() -> Numbered:
    raise ValueError("no licence")


LAST = key_value_store("last", str, int)


def _initialised(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.process(BadInit, stores=LAST, name="p").to("out", key=str, value=str)


def _supplied(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.process(bad_supplier, stores=LAST, name="p").to("out", key=str, value=str)


def _transformed(builder: StreamsBuilder) -> None:
    table = builder.table("in", key=str, value=str, store="rows")
    table.transform_values(BadTransformer, value=str, name="p").to_stream().to("out")


def _written(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out", value=BadSerde(), name="p")


def _read(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=BadSerde(), name="p").to("out", value=str)


WAYS: dict[str, tuple[Callable[[StreamsBuilder], None], str]] = {
    "init": (_initialised, r"test_processor_lifecycle.py:\d+ in init: OSError: no model"),
    "supplier": (_supplied, r"test_processor_lifecycle.py:\d+ in bad_supplier: ValueError: no li"),
    "transformer": (_transformed, r"test_processor_lifecycle.py:\d+ in init: KeyError: 'model'"),
    "serializer": (_written, r"test_processor_lifecycle.py:\d+ in serializer: LookupError: no t"),
    "deserializer": (_read, r"test_processor_lifecycle.py:\d+ in deserializer: LookupError: no"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_made_is_named_and_no_handler_is_asked(way: str, tmp_path: Path) -> None:
    declare, told = WAYS[way]
    builder = StreamsBuilder()
    declare(builder)
    topology = builder.build()
    handlers = ErrorHandlers(
        deserialization=dead_letter,
        processing=dead_letter,
        production=dead_letter,
        dead_letter_topic="dead",
    )
    said = rf"an operator could not be made: task 0_0, node 'p', in .*{told}"
    with pytest.raises(ProcessingError, match=said) as raised:
        TopologyTestDriver(topology, error_handlers=handlers)
    assert (raised.value.task, raised.value.node) == ("0_0", "p")

    cluster = cluster_of({"in": 1, "out": 1, "dead": 1})
    send(cluster, "a")
    app = Application(
        topology,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
        error_handlers=handlers,
    )
    with pytest.raises(ProcessingError, match=said):
        app.run(handle_signals=False)
    assert cluster.records("dead") == []
