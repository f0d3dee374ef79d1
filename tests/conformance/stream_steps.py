"""Sources, sinks and the stateless steps of streams and tables."""

from __future__ import annotations

from typing import Any

from .flows import Flow, Flows, Step, StepBuilder
from .functions import (
    Spec,
    extracted_time,
    flat_map,
    flat_map_values,
    flat_type,
    key_value_mapper,
    mapper,
    mapper_type,
    predicate,
    text,
)
from .materialization import materialized
from .wire import BIGINT, STRING, topic_types


def _extractor(spec: Spec | None) -> Any:
    if spec is None:
        return None
    return lambda key, value, record_ms, partition_ms: extracted_time(
        spec, value, record_ms, partition_ms
    )


def _stream(step: Step, flows: Flows) -> Flow:
    topics = step["topics"] if "topics" in step else [step["topic"]]
    key, value = topic_types(step)
    node = flows.builder.stream(
        *topics,
        key=key.serde,
        value=value.serde,
        name=step["name"],
        timestamp_extractor=_extractor(step.get("timestamp_extractor")),
    )
    return Flow(node, key, value)


def _table(step: Step, flows: Flows) -> Flow:
    key, value = topic_types(step)
    node = flows.builder.table(
        step["topic"],
        key=key.serde,
        value=value.serde,
        store=materialized(step),
        name=step["name"],
        timestamp_extractor=_extractor(step.get("timestamp_extractor")),
    )
    return Flow(node, key, value, is_table=True)


def _global_table(step: Step, flows: Flows) -> Flow:
    key, value = topic_types(step)
    node = flows.builder.global_table(
        step["topic"],
        key=key.serde,
        value=value.serde,
        store=materialized(step),
        name=step["name"],
    )
    return Flow(node, key, value, is_table=True)


def _filter(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    method = getattr(flow.node, step["op"])
    options = {"store": materialized(step)} if flow.is_table else {}
    return flow.then(method(predicate(step["predicate"]), name=step["name"], **options))


def _map(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    spec = step["mapper"]
    key = mapper_type(spec["key"], flow.key, flow.value)
    value = mapper_type(spec["value"], flow.key, flow.value)
    function = key_value_mapper(spec["key"], spec["value"])
    node = flow.node.map(function, key=key.serde, value=value.serde, name=step["name"])
    return flow.then(node, key=key, value=value)


def _map_values(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    value = mapper_type(step["mapper"], flow.key, flow.value)
    options = {"store": materialized(step)} if flow.is_table else {}
    node = flow.node.map_values(
        mapper(step["mapper"]), value=value.serde, name=step["name"], **options
    )
    return flow.then(node, value=value)


def _select_key(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    key = mapper_type(step["mapper"], flow.key, flow.value)
    node = flow.node.select_key(mapper(step["mapper"]), key=key.serde, name=step["name"])
    return flow.then(node, key=key)


def _flat_map(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    node = flow.node.flat_map(
        flat_map(step["mapper"]), key=STRING.serde, value=BIGINT.serde, name=step["name"]
    )
    return flow.then(node, key=STRING, value=BIGINT)


def _flat_map_values(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    value = flat_type(step["mapper"])
    node = flow.node.flat_map_values(
        flat_map_values(step["mapper"]), value=value.serde, name=step["name"]
    )
    return flow.then(node, value=value)


def _merge(step: Step, flows: Flows) -> Flow:
    flow = flows[step["left"]]
    return flow.then(flow.node.merge(flows[step["right"]].node, name=step["name"]))


def _split(step: Step, flows: Flows) -> None:
    flow = flows[step["in"]]
    split = flow.node.split(name=step["name"])
    for branch in step["branches"]:
        split = split.branch(predicate(branch["predicate"]), name=branch["name"])
    if step.get("default") is None:
        branches = split.no_default_branch()
    else:
        branches = split.default_branch(name=step["default"])
    for name, stream in branches.items():
        given = step["name"] is not None
        known = name if given else step["flow"] + name[len("KSTREAM-BRANCH-0000000000") :]
        flows.named[known] = flow.then(stream)


def _repartition(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    return flow.then(
        flow.node.repartition(name=step["name"], key=flow.key.serde, value=flow.value.serde)
    )


def _to_table(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    node = flow.node.to_table(
        store=materialized(step), key=flow.key.serde, value=flow.value.serde, name=step["name"]
    )
    return flow.then(node, is_table=True)


def _to_stream(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    if step.get("mapper") is None:
        return flow.then(flow.node.to_stream(name=step["name"]), is_table=False)
    key = mapper_type(step["mapper"], flow.key, flow.value)
    node = flow.node.to_stream(mapper(step["mapper"]), key=key.serde, name=step["name"])
    return flow.then(node, key=key, is_table=False)


def _to(step: Step, flows: Flows) -> None:
    flow = flows[step["in"]]
    flow.node.to(step["topic"], key=flow.key.serde, value=flow.value.serde, name=step["name"])


def _to_dynamic(step: Step, flows: Flows) -> None:
    flow = flows[step["in"]]
    prefix = step["prefix"]

    def topic_by_key(key: Any, value: Any, metadata: Any) -> str:
        return f"{prefix}{text(key)}"

    flow.node.to(topic_by_key, key=flow.key.serde, value=flow.value.serde, name=step["name"])


STREAM_STEPS: dict[str, StepBuilder] = {
    "stream": _stream,
    "table": _table,
    "global_table": _global_table,
    "filter": _filter,
    "filter_not": _filter,
    "map": _map,
    "map_values": _map_values,
    "select_key": _select_key,
    "flat_map": _flat_map,
    "flat_map_values": _flat_map_values,
    "merge": _merge,
    "split": _split,
    "repartition": _repartition,
    "to_table": _to_table,
    "to_stream": _to_stream,
    "to": _to,
    "to_dynamic": _to_dynamic,
}
