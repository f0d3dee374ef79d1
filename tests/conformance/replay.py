"""One recorded run, replayed: the events go in, what comes out has the shape of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logstate.errors import LogstateError
from logstate.records import ProducedRecord
from logstate.stores import StoreSpec
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import Topology

from .contents import contents, join_rows
from .naming import changelog_topic
from .settings import driver_settings
from .vectors import Case, Run
from .wire import WireType, decode_headers, encode_headers, topic_types

#: The class Kafka Streams wraps whatever goes wrong while a task processes a record in.
TASK_FAILURE = "StreamsException"


def replay(case: Case, topology: Topology, expected: Run) -> Run:
    """Run the events of ``expected`` through the topology."""
    with TopologyTestDriver(topology, **driver_settings(case.config)) as driver:
        return _Replay(case, topology, driver).run(expected)


class _Replay:
    """Pipes the events and notes after each one what it caused."""

    def __init__(self, case: Case, topology: Topology, driver: TopologyTestDriver) -> None:
        self.case = case
        self.topology = topology
        self.driver = driver
        self.inputs = {topic: topic_types(types) for topic, types in case.inputs.items()}
        self.outputs = {topic: topic_types(types) for topic, types in case.outputs.items()}
        self.added_stores = {step["name"] for step in case.steps if step["op"] == "add_store"}
        self.output: list[dict[str, Any]] = []
        self.dropped: list[list[int]] = []
        self.changelog: dict[str, list[list[Any]]] = {}
        self.internal: dict[str, list[list[Any]]] = {}

    def run(self, expected: Run) -> Run:
        error = None
        dropped = self.driver.dropped_total
        for cause, event in enumerate(expected.events):
            try:
                self._apply(event)
            except LogstateError as failure:
                error = {"cause": cause, "exception": recorded_class(failure)}
                break
            self._collect(cause)
            if self.driver.dropped_total != dropped:
                self.dropped.append([cause, self.driver.dropped_total - dropped])
                dropped = self.driver.dropped_total
        return Run(
            seed=expected.seed,
            events=expected.events,
            output=self.output,
            stores={} if error else self._stores(),
            dropped=self.dropped,
            changelog=self.changelog,
            internal=self.internal,
            error=error,
        )

    def _apply(self, event: dict[str, Any]) -> None:
        if event["op"] == "advance_wall_clock":
            self.driver.advance_wall_clock(event["ms"])
            return
        key, value = self.inputs[event["topic"]]
        self.driver.pipe_raw(
            event["topic"],
            key.encode(event["key"]),
            value.encode(event["value"]),
            event["ts"],
            encode_headers(event.get("headers")),
        )

    def _collect(self, cause: int) -> None:
        for record in self.driver.take_outputs():
            self.output.append(self._output(record, cause))
        _collect_new(self.changelog, self.driver.changelogs, cause)
        _collect_new(self.internal, self.driver.internal, cause)

    def _output(self, record: ProducedRecord, cause: int) -> dict[str, Any]:
        key, value = self.outputs.get(record.topic, (WireType("hex"), WireType("hex")))
        row: dict[str, Any] = {"topic": record.topic, "key": key.decode(record.key)}
        if key.is_windowed and record.key is not None:
            row["key_hex"] = record.key.hex()
        row |= {"value": value.decode(record.value), "ts": record.timestamp}
        if record.headers:
            row["headers"] = decode_headers(record.headers)
        return row | {"cause": cause}

    def _stores(self) -> dict[str, dict[str, Any]]:
        specs = {**self.topology.stores, **self.topology.global_stores}
        return {name: self._contents(spec) for name, spec in sorted(specs.items())}

    def _contents(self, spec: StoreSpec) -> dict[str, Any]:
        found = contents(spec, self.driver.store(spec.name), self._keys(spec))
        carries_headers = spec.in_memory or self.case.config.get("dsl.store.format") == "HEADERS"
        is_of_join = spec.retain_duplicates and spec.name not in self.added_stores
        if is_of_join and carries_headers and found.get("rows"):
            found["rows"] = join_rows(spec, found["rows"], self._logged(spec))
        return found

    def _logged(self, spec: StoreSpec) -> list[ProducedRecord]:
        topic = changelog_topic(self.case.config["application.id"], spec)
        return self.driver.changelogs.get(topic, [])

    def _keys(self, spec: StoreSpec) -> list[Any]:
        """Every key that was ever put into a store: versioned stores cannot be scanned."""
        if spec.kind != "versioned":
            return []
        decode = spec.key.deserializer("", True)
        found = {record.key for record in self._logged(spec)}
        return [decode(key) for key in sorted(key for key in found if key is not None)]


def recorded_class(failure: LogstateError) -> str:
    """The class in which Kafka Streams reports such a failure."""
    return RECORDED_CLASSES.get(type(failure).__name__, type(failure).__name__)


#: logstate's exception -> Kafka Streams'
RECORDED_CLASSES = {"ProcessingError": TASK_FAILURE, "DeserializationError": TASK_FAILURE}


def _collect_new(
    rows: dict[str, list[list[Any]]], topics: Mapping[str, Sequence[ProducedRecord]], cause: int
) -> None:
    """Append what the topics got since the last look, as the recordings write it."""
    for topic, records in topics.items():
        seen = len(rows.get(topic, ()))
        for record in records[seen:]:
            rows.setdefault(topic, []).append(_raw(record, cause))


def _raw(record: ProducedRecord, cause: int) -> list[Any]:
    row = [
        cause,
        None if record.key is None else record.key.hex(),
        None if record.value is None else record.value.hex(),
        None if record.timestamp == -1 else record.timestamp,
    ]
    if record.headers:
        row.append([[name, None if raw is None else raw.hex()] for name, raw in record.headers])
    return row
