"""The formats of an application's input and output topics, for commands.

They come from a topology, which has the serdes themselves, or from the manifest of an application
that has run, which has their descriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from logstate.cli.shared.stored_logs import Settings, stored_by, suggestion
from logstate.contracts.errors import ConfigError
from logstate.contracts.serde import Serde
from logstate.serdes.described import Description
from logstate.serdes.scalars import string
from logstate.serdes.typed_values import TypedValues, typed_by_description
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.manifest import external_topics_of
from logstate.topology.dsl.topology_target import load_topology


class Serdes(NamedTuple):
    """The serdes of a topic."""

    key: Serde[Any]
    value: Serde[Any]


def serdes_in(target: str, topic: str) -> Serdes:
    """Return the serdes of a topic in a topology. Raises ConfigError if it does not have it."""
    nodes = dict(external_topics_of(BoundPlan("", load_topology(target), {})))
    if topic not in nodes:
        raise _unknown_topic(f"topology {target!r}", topic, nodes)
    return Serdes(nodes[topic].key, nodes[topic].value)


def descriptions_of(
    settings: Settings, application_id: str, topic: str
) -> Mapping[str, Description | None]:
    """Return the formats of a topic, by the manifest; raises ConfigError if it does not have it."""
    found: Mapping[str, Any] = stored_by(settings, application_id).manifest.get("formats", {})
    if topic not in found:
        raise _unknown_topic(f"application {application_id!r}", topic, found)
    return found[topic]  # type: ignore[no-any-return]


def typed_topic(
    settings: Settings,
    topic: str,
    target: str | None,
    application_id: str | None,
    registry: Mapping[str, str],
) -> tuple[TypedValues, TypedValues]:
    """Return the encoders of keys and values: of a topology, of an application, or of text."""
    if target is not None:
        key, value = serdes_in(target, topic)
    elif application_id is not None:
        found = descriptions_of(settings, application_id, topic)
        return (
            typed_by_description(found.get("key"), topic, is_key=True, registry=registry),
            typed_by_description(found.get("value"), topic, is_key=False, registry=registry),
        )
    else:
        key = value = string
    return TypedValues(key, topic, is_key=True), TypedValues(value, topic, is_key=False)


def _unknown_topic(what: str, topic: str, known: Iterable[str]) -> ConfigError:
    listed = sorted(known)
    return ConfigError(
        f"{what} neither reads nor writes topic {topic!r}{suggestion(topic, listed)}; its topics"
        f" are {', '.join(listed) or 'none'}"
    )
