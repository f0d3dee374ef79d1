"""The topics of the test driver, written and read with serdes and typed by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from logstate.contracts.record_parts import shown
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.contracts.topic_names import changelog_topic
from logstate.testing.driver_log import DriverLog
from logstate.testing.driver_sources import meant, source_serdes
from logstate.testing.input_topic import InputTopic
from logstate.testing.output_topic import OutputTopic
from logstate.topics.internal_topics import outputs_of, own_topics
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.graph.nodes import SinkNode, TopicRef
from logstate.topology.plan.plan import Topology


def check_output(
    topology: Topology, application_id: str, dead_letter_topic: str | None, topic: str
) -> None:
    """Raise ValueError for a topic that nothing writes to, and for one that is not an output."""
    known = outputs_of(topology, application_id, dead_letter_topic)
    if topic in known:
        return
    if topic in own_topics(topology, application_id):
        logs = {changelog_topic(application_id, store) for store in topology.stores}
        place = f"changelog({topic!r})" if topic in logs else f"internal[{topic!r}]"
        raise ValueError(
            f"topic {topic!r} is an internal topic of the application, not an output: its"
            f" records are in driver.{place}, as bytes"
        )
    if not _chooses_topics(topology):
        raise ValueError(
            f"nothing writes to topic {shown(topic)}{meant(topic, known)}; the topology writes to"
            f" {sorted(known)}"
        )


def _chooses_topics(topology: Topology) -> bool:
    """Return whether a function chooses topics, record by record."""
    return any(
        isinstance(node, SinkNode) and not isinstance(node.topic, TopicRef)
        for sub_topology in topology.sub_topologies
        for node in sub_topology.nodes
    )


K = TypeVar("K")
V = TypeVar("V")


class InputTimes(TypedDict, total=False):
    """The timestamps of the records of an input topic."""

    start_ms: int
    advance: timedelta


class DriverTopics(ABC):
    """The methods of ``TopologyTestDriver`` for topics with types and serdes."""

    topology: Topology
    _application_id: str
    _dead_letter_topic: str | None
    _log: DriverLog

    @abstractmethod
    def pipe_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = None,
    ) -> None:
        """Pipe one record as bytes."""

    @overload
    def input_topic(
        self,
        topic: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        **times: Unpack[InputTimes],
    ) -> InputTopic[K, V]: ...
    @overload
    def input_topic(
        self, topic: str, *, value: type[V] | Serde[V], **times: Unpack[InputTimes]
    ) -> InputTopic[Any, V]: ...
    @overload
    def input_topic(
        self, topic: str, *, key: Any = ..., value: Any = ..., **times: Unpack[InputTimes]
    ) -> InputTopic[Any, Any]: ...
    def input_topic(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        start_ms: int = 0,
        advance: timedelta = timedelta(0),
    ) -> InputTopic[Any, Any]:
        """Return a topic to write to; its records get times from ``start_ms``, ``advance`` apart.

        Keys and values are encoded with the source's own serdes unless others are given.
        """
        keys, values = source_serdes(self.topology, self._application_id, topic)
        keys = required_serde(key, keys, f"the key of {topic!r}", "key=")
        values = required_serde(value, values, f"the value of {topic!r}", "value=")
        return InputTopic(topic, keys, values, self.pipe_raw, start_ms=start_ms, advance=advance)

    @overload
    def read(
        self, topic: str, *, value: type[V] | Serde[V]
    ) -> list[tuple[str | None, V | None]]: ...
    @overload
    def read(
        self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> list[tuple[K | None, V | None]]: ...
    @overload
    def read(self, topic: str, *, key: Any = ..., value: Any) -> list[tuple[Any, Any]]: ...
    def read(self, topic: str, *, key: Any = str, value: Any) -> list[tuple[Any, Any]]:
        """Take all records of an output topic as decoded ``(key, value)`` pairs.

        A record without a key has None there, and a tombstone has None for its value. Raises
        ValueError for a topic that nothing writes to, SerdeError for bytes that the declared types
        cannot decode.
        """
        return [(k, v) for k, v, _ in self.read_with_timestamps(topic, key=key, value=value)]

    @overload
    def read_with_timestamps(
        self, topic: str, *, value: type[V] | Serde[V]
    ) -> list[tuple[str | None, V | None, int]]: ...
    @overload
    def read_with_timestamps(
        self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> list[tuple[K | None, V | None, int]]: ...
    @overload
    def read_with_timestamps(
        self, topic: str, *, key: Any = ..., value: Any
    ) -> list[tuple[Any, Any, int]]: ...
    def read_with_timestamps(
        self, topic: str, *, key: Any = str, value: Any
    ) -> list[tuple[Any, Any, int]]:
        """Take all records of an output topic as ``(key, value, timestamp)`` triples."""
        records = self.output_topic(topic, key=key, value=value).read_all()
        return [(record.key, record.value, record.timestamp) for record in records]

    @overload
    def output_topic(self, topic: str, *, value: type[V] | Serde[V]) -> OutputTopic[str, V]: ...
    @overload
    def output_topic(
        self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> OutputTopic[K, V]: ...
    @overload
    def output_topic(self, topic: str, *, key: Any = ..., value: Any) -> OutputTopic[Any, Any]: ...
    def output_topic(self, topic: str, *, key: Any = str, value: Any) -> OutputTopic[Any, Any]:
        """Return a reader of an output topic, record by record; key and value: types or serdes.

        Raises ValueError for a topic that nothing writes to, unless a function chooses topics.
        """
        check_output(self.topology, self._application_id, self._dead_letter_topic, topic)
        key_serde = required_serde(key, None, f"the key of {topic!r}", "key=")
        value_serde = required_serde(value, None, f"the value of {topic!r}", "value=")
        return OutputTopic(topic, key_serde, value_serde, self._log)
