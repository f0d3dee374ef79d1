"""A test driver seen through the eyes of a recording: events in, recorded forms out."""

from __future__ import annotations

from typing import Any

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import ProducedRecord
from logstate.contracts.stores import StoreSpec
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import Topology

from .contents import contents, join_rows
from .naming import changelog_topic
from .vectors import Case
from .wire import WireType, decode_headers, encode_headers, topic_types

#: The class Kafka Streams wraps whatever goes wrong while a task processes a record in.
TASK_FAILURE = "StreamsException"
#: logstate's exception -> Kafka Streams'
RECORDED_CLASSES = {"ProcessingError": TASK_FAILURE, "DeserializationError": TASK_FAILURE}
_UNKNOWN = (WireType("hex"), WireType("hex"))


def recorded_class(failure: LogstateError) -> str:
    """The class in which Kafka Streams reports such a failure."""
    return RECORDED_CLASSES.get(type(failure).__name__, type(failure).__name__)


class Observer:
    """Applies events to a driver, and shows records and stores as the recordings do."""

    def __init__(self, case: Case, topology: Topology, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self.specs = {**topology.stores, **topology.global_stores}
        self._application_id = case.config["application.id"]
        self._rows_carry_headers = case.config.get("dsl.store.format") == "HEADERS"
        self._inputs = {topic: topic_types(types) for topic, types in case.inputs.items()}
        self._outputs = {topic: topic_types(types) for topic, types in case.outputs.items()}
        self._added_stores = {step["name"] for step in case.steps if step["op"] == "add_store"}
        self._piped_keys: dict[str, set[bytes]] = {}

    def apply(self, event: dict[str, Any]) -> None:
        """Let the event happen, with everything that follows from it."""
        if event["op"] == "advance_wall_clock":
            self.driver.advance_wall_clock(event["ms"])
            return
        if event["op"] == "commit":
            self.driver.advance_wall_clock(0)
            return
        topic = event["topic"]
        key_type, value_type = self._inputs[topic]
        key = key_type.encode(event["key"])
        if key is not None:
            self._piped_keys.setdefault(topic, set()).add(key)
        value, headers = value_type.encode(event["value"]), encode_headers(event.get("headers"))
        self.driver.pipe_raw(topic, key, value, event["ts"], headers)

    def output(self, record: ProducedRecord) -> dict[str, Any]:
        """An output record, without its cause."""
        key, value = self._outputs.get(record.topic, _UNKNOWN)
        row: dict[str, Any] = {"topic": record.topic, "key": key.decode(record.key)}
        if key.is_windowed and record.key is not None:
            row["key_hex"] = record.key.hex()
        row |= {"value": value.decode(record.value), "ts": record.timestamp}
        if record.headers:
            row["headers"] = decode_headers(record.headers)
        return row

    def stores(self) -> dict[str, dict[str, Any]]:
        """Contents of every store."""
        return {name: self._contents(spec) for name, spec in sorted(self.specs.items())}

    def _contents(self, spec: StoreSpec) -> dict[str, Any]:
        found = contents(spec, self.driver.store(spec.name), self._keys(spec))
        carries_headers = spec.in_memory or self._rows_carry_headers
        is_of_join = spec.retain_duplicates and spec.name not in self._added_stores
        if is_of_join and carries_headers and found.get("rows"):
            found["rows"] = join_rows(spec, found["rows"], self._logged(spec))
        return found

    def _logged(self, spec: StoreSpec) -> list[ProducedRecord]:
        return self.driver.changelog(changelog_topic(self._application_id, spec))

    def _keys(self, spec: StoreSpec) -> list[Any]:
        """Every key that was ever put into a store: versioned stores cannot be scanned."""
        if spec.kind != "versioned":
            return []
        found = {record.key for record in self._logged(spec) if record.key is not None}
        if spec.source_topic is not None:
            found |= self._piped_keys.get(spec.source_topic, set())
        decode = spec.key.deserializer("", True)
        return [decode(key) for key in sorted(found)]
