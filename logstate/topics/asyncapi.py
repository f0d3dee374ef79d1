"""The AsyncAPI 3.0 document of a topology: the topics that it reads and writes, with their formats.

A channel per topic; an operation receives its records, or sends them. Repartition topics and
changelogs are not part of it: only the application itself reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from logstate.contracts.serde import Serde
from logstate.serdes.described import Description, format_name
from logstate.serdes.schema_components import SchemaComponents
from logstate.topology.graph.nodes import SinkNode, SourceNode, TopicRef
from logstate.topology.plan.plan import Topology

_BINDING: Final = "0.5.0"
_AVRO: Final = "application/vnd.apache.avro+json;version=1.9.0"
#: content types of the bytes of a format; others are not known outside of the library
_CONTENT: Final[Mapping[str, str]] = {
    "avro": "application/vnd.apache.avro",
    "json": "application/json",
    "json_schema": "application/json",
    "protobuf": "application/x-protobuf",
    "string": "text/plain",
    "uuid": "text/plain",
}
_BYTES: Final = "application/octet-stream"
#: numbers are not text in the bytes of their formats
_LAYOUTS: Final[Mapping[str, str]] = {
    "boolean": "one byte, 0 or 1",
    "bytes": "the bytes themselves",
    "float32": "4 bytes, IEEE 754, big-endian",
    "float64": "8 bytes, IEEE 754, big-endian",
    "int16": "2 bytes, big-endian",
    "int32": "4 bytes, big-endian",
    "int64": "8 bytes, big-endian",
    "uuid_bytes": "16 bytes, big-endian",
}


def asyncapi_document(topology: Topology, title: str, version: str) -> dict[str, Any]:
    """Return the document as plain data.

    A topic of several nodes has the messages of each. The address of topics that match a pattern,
    or that a function chooses per record, is null.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("orders", value=str).to("copies")
    >>> found = asyncapi_document(builder.build(), "shop", "1.0.0")
    >>> found["channels"]["orders"]["messages"]["value"]["payload"]
    {'type': 'string'}
    >>> [one["action"] for one in found["operations"].values()]
    ['receive', 'send']
    """
    components = SchemaComponents()
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for node, topic in _external_topics(topology):
        id_ = _channel_id(node, topic)
        channel = channels.setdefault(id_, _channel(node, topic))
        message = _message(node, components)
        name = _add_message(channel["messages"], message)
        action = "receive" if isinstance(node, SourceNode) else "send"
        operation = operations.setdefault(
            f"{action}-{id_}",
            {"action": action, "channel": {"$ref": f"#/channels/{id_}"}, "messages": []},
        )
        reference = {"$ref": f"#/channels/{id_}/messages/{name}"}
        if reference not in operation["messages"]:
            operation["messages"].append(reference)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": title, "version": version},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"schemas": components.schemas},
    }


def _external_topics(
    topology: Topology,
) -> Iterator[tuple[SourceNode | SinkNode, TopicRef | None]]:
    """Yield the topics of others with a node that reads or writes them, sources first."""
    parts = (*topology.sub_topologies, *topology.global_sub_topologies)
    for part in parts:
        for source in part.sources:
            yield from ((source, one) for one in source.topics if not one.is_internal)
    for part in parts:
        for node in part.nodes:
            if isinstance(node, SinkNode):
                topic = node.topic if isinstance(node.topic, TopicRef) else None
                if topic is None or not topic.is_internal:
                    yield node, topic


def _channel_id(node: SourceNode | SinkNode, topic: TopicRef | None) -> str:
    """Return the id of a channel: the topic, or the operator unless there is a single topic."""
    return node.name if topic is None or topic.is_pattern else topic.name


def _channel(node: SourceNode | SinkNode, topic: TopicRef | None) -> dict[str, Any]:
    if topic is not None and not topic.is_pattern:
        binding = {"topic": topic.name, "bindingVersion": _BINDING}
        return {"address": topic.name, "messages": {}, "bindings": {"kafka": binding}}
    which = "that a function chooses for each record"
    if topic is not None:
        which = f"whose whole name matches {topic.name}"
    return {"address": None, "description": f"Topics {which} ({node.name}).", "messages": {}}


def _add_message(messages: dict[str, Any], message: dict[str, Any]) -> str:
    """Add a message to those of a channel; return its name, which an equal one has already."""
    for name, known in messages.items():
        if known == message:
            return name
    name = "value" if not messages else f"value-{len(messages) + 1}"
    messages[name] = message
    return name


def _message(node: SourceNode | SinkNode, components: SchemaComponents) -> dict[str, Any]:
    value = node.value.describe()
    key = _schema(node.key, components)
    return {
        "title": format_name(value),
        "contentType": _content_type(value),
        "payload": _schema(node.value, components),
        "bindings": {"kafka": {"key": key, "bindingVersion": _BINDING}},
    }


def _content_type(described: Description) -> str:
    name = described["format"]
    if name == "faust" and described.get("codec") == "json":
        return _CONTENT["json"]
    return _CONTENT.get(name, _BYTES)


def _schema(serde: Serde[Any], components: SchemaComponents) -> dict[str, Any]:
    described = serde.describe()
    name = described["format"]
    if name == "avro":
        return {"schemaFormat": _AVRO, "schema": described["schema"]}
    schema = components.json(described)
    if name in _LAYOUTS:
        schema["description"] = _LAYOUTS[name]
    if described.get("framing") == "confluent":
        schema["description"] = f"{format_name(described)}, after the 5 bytes of a schema's id"
    return schema
