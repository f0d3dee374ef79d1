"""Turn the declaration of an input topic into its checked source and its table's store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_offset_reset
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.dsl.materialized import Materialized, StoreDefaults, key_value_spec
from logstate.topology.graph.nodes import SourceNode, TimestampExtractor, TopicRef

OffsetReset = str | timedelta


def source_node(
    name: str,
    topics: Sequence[str | re.Pattern[str]],
    key: Any,
    value: Any,
    timestamp_extractor: TimestampExtractor | None,
    offset_reset: OffsetReset | None,
) -> SourceNode:
    """The source of some topics, checked."""
    listed = ", ".join(map(repr, topics))
    check_offset_reset(offset_reset)
    if timestamp_extractor is not None:
        shape = "(key, value, record_timestamp, partition_time)"
        callbacks.of_shape(timestamp_extractor, "timestamp extractor", shape, 4)
    return SourceNode(
        name,
        tuple(dict.fromkeys(map(_topic_ref, topics))),
        required_serde(key, None, f"the key of topic {listed}", "key="),
        required_serde(value, None, f"the value of topic {listed}", "value="),
        timestamp_extractor=timestamp_extractor,
        offset_reset=offset_reset,
    )


def _topic_ref(topic: str | re.Pattern[str]) -> TopicRef:
    if isinstance(topic, re.Pattern):
        if topic.flags != re.UNICODE:  # also of bytes
            raise declaration_error(
                f"A pattern of topics is a str without flags, found {topic!r}: names of topics are"
                " text, and describe() shows the pattern alone. Write flags as (?i) into it."
            )
        return TopicRef(topic.pattern, is_pattern=True)
    return TopicRef(check_name(topic, "a topic"))


def table_store(options: Materialized, source: SourceNode, defaults: StoreDefaults) -> StoreSpec:
    """The store of a table over a topic."""
    use = f"store {options.name!r}"
    return key_value_spec(
        options,
        required_serde(options.key, source.key, f"the key of {use}", "key="),
        required_serde(options.value, source.value, f"the value of {use}", "value="),
        defaults,
    )


def global_spec(spec: StoreSpec, topic: str) -> StoreSpec:
    """The store of every instance: its topic is its log."""
    return replace(spec, is_logged=False, source_topic=topic)
