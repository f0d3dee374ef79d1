"""Joins: of streams, of a stream and a table, of tables, by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.topology import JoinWindows

from .flows import Flow, Flows, Step, StepBuilder
from .functions import joiner, mapper
from .materialization import materialized
from .settings import milliseconds
from .wire import STRING

METHOD = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def _stream_stream(step: Step, left: Flow, right: Flow) -> dict[str, Any]:
    windows = JoinWindows(
        before=milliseconds(step["before_ms"]),
        after=milliseconds(step["after_ms"]),
        grace=milliseconds(step.get("grace_ms", 0)),
    )
    return {
        "windows": windows,
        "store": materialized(step),
        "key": left.key.serde,
        "left_value": left.value.serde,
        "right_value": right.value.serde,
        "value": STRING.serde,
    }


def _stream_table(step: Step, left: Flow, right: Flow) -> dict[str, Any]:
    types = {
        "key": left.key.serde,
        "left_value": left.value.serde,
        "value": STRING.serde,
    }
    if step.get("grace_ms") is None:
        return types
    return {"grace": milliseconds(step["grace_ms"]), **types}


def _stream_global_table(step: Step, left: Flow, right: Flow) -> dict[str, Any]:
    return {"key_mapper": mapper(step["key_mapper"]), "value": STRING.serde}


def _table_table(step: Step, left: Flow, right: Flow) -> dict[str, Any]:
    return {"store": materialized(step), "value": STRING.serde}


def _foreign_key(step: Step, left: Flow, right: Flow) -> dict[str, Any]:
    return {
        "foreign_key": mapper(step["foreign_key"]),
        "store": materialized(step),
        "value": STRING.serde,
    }


KINDS: dict[str, Callable[[Step, Flow, Flow], dict[str, Any]]] = {
    "stream_stream": _stream_stream,
    "stream_table": _stream_table,
    "stream_global_table": _stream_global_table,
    "table_table": _table_table,
    "foreign_key": _foreign_key,
}


def _join(step: Step, flows: Flows) -> Flow:
    left, right = flows[step["left"]], flows[step["right"]]
    options = KINDS[step["kind"]](step, left, right)
    method = getattr(left.node, METHOD[step["type"]])
    node = method(right.node, joiner(step["joiner"]), name=step["name"], **options)
    return left.then(node, value=STRING)


JOIN_STEPS: dict[str, StepBuilder] = {"join": _join}
