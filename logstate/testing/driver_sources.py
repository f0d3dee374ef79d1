"""Encode a test driver's inputs with the serdes of the source that reads the topic."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RegistryError, SerdeError
from logstate.contracts.record_parts import headers_of, shown
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde, record_encoders
from logstate.contracts.topic_names import topic_name
from logstate.topology.plan.plan import Topology


def source_serdes(
    topology: Topology, application_id: str, topic: str
) -> tuple[Serde[Any], Serde[Any]]:
    """Return the serdes of keys and of values; raise ValueError for a topic without source."""
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
    raise ValueError(
        f"no source reads topic {shown(topic)}{meant(topic, known)}; the topology reads"
        f" {sorted(known)}"
    )


def meant(topic: object, known: Iterable[str]) -> str:
    """Return the question whether another topic was meant; empty if no name is similar."""
    near = difflib.get_close_matches(topic, list(known), n=1) if isinstance(topic, str) else []
    return f" (was {near[0]!r} meant?)" if near else ""


def parts_of(given: Any, count: int, whose: str, wanted: str) -> tuple[Any, ...]:
    """Return the parts of one piped record; raise TypeError for another number of parts."""
    # A text with that many letters would unpack, too.
    if isinstance(given, tuple | list) and len(given) == count:
        return tuple(given)
    raise TypeError(
        f"{whose} takes {wanted}, found {shown(given)} ({type(given).__name__}). Times are ints, in"
        " ms since the epoch; input_topic(...).pipe_pairs() takes records without, and gives them"
        " times"
    )


class RecordEncoder:
    """Makes the bytes of records for one topic."""

    def __init__(self, topic: str, key: Serde[Any], value: Serde[Any]) -> None:
        self._topic = topic
        self._parts = dict(zip(("key", "value"), (key, value), strict=True))
        self._encoders = record_encoders(key, value, topic)

    def __call__(
        self, key: Any, value: Any, headers: Headers
    ) -> tuple[bytes | None, bytes | None, Headers]:
        """The bytes of key and value, and the headers with what the serdes put there.

        None stays None. Raises SerdeError for what does not fit the declared type.
        """
        written = list(headers_of(headers, "pipe got") or ())
        part, given = "key", key
        encode_key, encode_value = self._encoders
        try:
            key_bytes = None if key is None else encode_key(key, written)
            part, given = "value", value
            value_bytes = None if value is None else encode_value(value, written)
        except RegistryError:
            raise
        except Exception as error:
            raise SerdeError(
                f"the {part} {shown(given)} ({type(given).__name__}) cannot be piped into topic"
                f" {self._topic!r}, whose {part}s are declared as {self._parts[part]!r}:"
                f" {text_of(error)}"
            ) from error
        return key_bytes, value_bytes, written or None
