"""Added stores, global stores and the steps of the Processor API."""

from __future__ import annotations

from typing import Any

from logstate.topology import ValueTransformer

from .flows import Flow, Flows, Step, StepBuilder
from .functions import text
from .materialization import added_store, materialized
from .processors import supplier_of
from .wire import STRING, WireType


def _add_store(step: Step, flows: Flows) -> None:
    flows.builder.add_store(added_store(step))


def _add_global_store(step: Step, flows: Flows) -> None:
    store = step["store"]
    flows.builder.add_global_store(
        added_store(store),
        step["topic"],
        supplier_of(step["processor"], step.get("args"), [store["name"]]),
        key=WireType(step["key"]).serde,
        value=WireType(step["value"]).serde,
        name=step["name"],
    )


def _process(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    stores = step.get("stores", [])
    # Global stores are readable by every processor: they are named, not connected.
    named = stores or step.get("global_stores", [])
    supplier = supplier_of(step["processor"], step.get("args"), named)
    value = WireType(step["out_value"]) if step.get("out_value") else flow.value
    if step["op"] == "process_values":
        node = flow.node.process_values(
            supplier, stores=tuple(stores), value=value.serde, name=step["name"]
        )
        return flow.then(node, value=value)
    key = WireType(step["out_key"]) if step.get("out_key") else flow.key
    node = flow.node.process(
        supplier, stores=tuple(stores), key=key.serde, value=value.serde, name=step["name"]
    )
    return flow.then(node, key=key, value=value)


class _Tag(ValueTransformer[Any, Any, str]):
    """Key and value as one text."""

    def transform(self, key: Any, value: Any) -> str | None:
        return None if value is None else f"{text(key)}:{text(value)}"


def _transform_values(step: Step, flows: Flows) -> Flow:
    flow = flows[step["in"]]
    node = flow.node.transform_values(
        _Tag, value=STRING.serde, store=materialized(step), name=step["name"]
    )
    return flow.then(node, value=STRING)


PROCESSOR_STEPS: dict[str, StepBuilder] = {
    "add_store": _add_store,
    "add_global_store": _add_global_store,
    "process": _process,
    "process_values": _process,
    "transform_values": _transform_values,
}
