"""Grouping, windows, aggregations, cogroup and suppress."""

from __future__ import annotations

from typing import Any

from logstate.topology import (
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    UnlimitedWindows,
    until_time_limit,
    until_window_closes,
)

from .aggregators import aggregator, reducer
from .flows import Flow, Flows, Step, StepBuilder
from .functions import key_value_mapper, mapper, mapper_type
from .materialization import materialized
from .settings import milliseconds
from .wire import BIGINT, SESSION, WireType

EMIT = {"on_window_update": "update", "on_window_close": "close", "on_commit": "commit"}


def windows_of(window: dict[str, Any]) -> Any:
    """The windows of a step."""
    grace = milliseconds(window.get("grace_ms", 0))
    kind = window["type"]
    if kind == "tumbling":
        return TumblingWindows(size=milliseconds(window["size_ms"]), grace=grace)
    if kind == "hopping":
        size, advance = milliseconds(window["size_ms"]), milliseconds(window["advance_ms"])
        return HoppingWindows(size=size, advance=advance, grace=grace)
    if kind == "sliding":
        return SlidingWindows(difference=milliseconds(window["difference_ms"]), grace=grace)
    if kind == "session":
        return SessionWindows(gap=milliseconds(window["gap_ms"]), grace=grace)
    if kind == "unlimited":
        return UnlimitedWindows(start_ms=window["start_ms"])
    raise ValueError(f"there are no {kind!r} windows")


def windowed_type(window: dict[str, Any]) -> WireType:
    """The type of keys inside these windows."""
    if window["type"] == "session":
        return SESSION
    if window["type"] == "unlimited":
        return WireType("windowed", (1 << 63) - 1)
    return WireType("windowed", window.get("size_ms", window.get("difference_ms")))


def _group_by_key(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    node = flow.node.group_by_key(name=step["name"], key=flow.key.serde, value=flow.value.serde)
    return flow.then(node)


def _group_by(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    spec = step["mapper"]
    if flow.is_table:
        key = mapper_type(spec["key"], flow.key, flow.value)
        value = mapper_type(spec["value"], flow.key, flow.value)
        function: Any = key_value_mapper(spec["key"], spec["value"])
    else:
        key, value = mapper_type(spec, flow.key, flow.value), flow.value
        function = mapper(spec)
    node = flow.node.group_by(function, name=step["name"], key=key.serde, value=value.serde)
    return flow.then(node, key=key, value=value)


def _aggregation(step: Step, flow: Flow) -> tuple[Any, WireType, dict[str, Any]]:
    """What to call the aggregation on, the result's key type, and the shared arguments."""
    emit = EMIT[step.get("emit", "on_window_update")]
    options: dict[str, Any] = {"store": materialized(step), "name": step["name"], "emit": emit}
    if flow.is_table:
        return flow.node, flow.key, options
    window = step.get("window")
    if window is None:
        return flow.node, flow.key, options
    return flow.node.windowed_by(windows_of(window)), windowed_type(window), options


def _is_session(step: Step) -> bool:
    return (step.get("window") or {}).get("type") == "session"


def _count(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    grouped, key, options = _aggregation(step, flow)
    return flow.then(grouped.count(**options), key=key, value=BIGINT, is_table=True)


def _reduce(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    grouped, key, options = _aggregation(step, flow)
    if flow.is_table:
        node = grouped.reduce(reducer(step["adder"]), reducer(step["subtractor"]), **options)
    else:
        node = grouped.reduce(reducer(step["reducer"]), **options)
    return flow.then(node, key=key, is_table=True)


def _aggregate(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    functions = aggregator(step["aggregator"])
    grouped, key, options = _aggregation(step, flow)
    value = functions.result_type(flow.value)
    callables: list[Any] = [lambda: functions.initial, functions.add]
    if flow.is_table:
        callables.append(functions.subtract)
    elif _is_session(step):
        callables.append(functions.merge)
    node = grouped.aggregate(*callables, value=value.serde, **options)
    return flow.then(node, key=key, value=value, is_table=True)


def _cogroup(step: Step, flows: Flows) -> Flow:
    groups = [(flows[group["in"]], aggregator(group["aggregator"])) for group in step["groups"]]
    flow, functions = groups[0]
    node = flow.node.cogroup(functions.add)
    for other, others in groups[1:]:
        node = node.cogroup(other.node, others.add)
    value = functions.result_type(flow.value)
    options = {"store": materialized(step), "name": step["name"], "value": value.serde}
    options["emit"] = EMIT[step.get("emit", "on_window_update")]
    window, key = step.get("window"), flow.key
    callables: list[Any] = [lambda: functions.initial]
    if window is not None:
        node, key = node.windowed_by(windows_of(window)), windowed_type(window)
        if _is_session(step):
            callables.append(functions.merge)
    return Flow(node.aggregate(*callables, **options), key, value, is_table=True)


def _suppress(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    until, limit = step["until"], step.get("max_records")
    if until["type"] == "window_closes":
        condition = until_window_closes(max_records=limit, max_bytes=step.get("max_bytes"))
    else:
        condition = until_time_limit(
            milliseconds(until["ms"]),
            max_records=limit,
            max_bytes=step.get("max_bytes"),
            shut_down_when_full=step.get("shut_down_when_full", False),
        )
    return flow.then(flow.node.suppress(condition, name=step["name"]))


AGGREGATE_STEPS: dict[str, StepBuilder] = {
    "group_by_key": _group_by_key,
    "group_by": _group_by,
    "count": _count,
    "reduce": _reduce,
    "aggregate": _aggregate,
    "cogroup": _cogroup,
    "suppress": _suppress,
}
