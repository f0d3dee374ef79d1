"""What a test driver's inputs are encoded with: the serdes of the source that reads the topic."""

from __future__ import annotations

from typing import Any

from logstate.contracts.record_parts import headers_of
from logstate.contracts.records import Headers
from logstate.contracts.serde import Encoders, Serde
from logstate.contracts.topic_names import topic_name
from logstate.topology.plan.plan import Topology


def source_serdes(
    topology: Topology, application_id: str, topic: str
) -> tuple[Serde[Any], Serde[Any]]:
    """Of keys and of values; raises ValueError for a topic that no source reads."""
    known: set[str] = set()
    for sub_topology in (*topology.sub_topologies, *topology.global_sub_topologies):
        for source in sub_topology.sources:
            topics = {
                topic_name(application_id, ref.name, is_internal=ref.is_internal)
                for ref in source.topics
            }
            if topic in topics:
                return source.key, source.value
            known |= topics
    raise ValueError(f"no source reads topic {topic!r}; the topology reads {sorted(known)}")


def encoded_record(
    encoders: Encoders, key: Any, value: Any, headers: Headers
) -> tuple[bytes | None, bytes | None, Headers]:
    """The bytes of key and value, and the headers with what the serdes put there."""
    written = list(headers_of(headers, "pipe got") or ())
    encode_key, encode_value = encoders
    key_bytes = None if key is None else encode_key(key, written)
    value_bytes = None if value is None else encode_value(value, written)
    return key_bytes, value_bytes, written or None
