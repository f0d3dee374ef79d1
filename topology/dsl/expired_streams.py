"""Streams of rows that expire: declared by a store with ``expired=``, taken from the builder."""

from __future__ import annotations

from typing import Any

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import InternalStreamsBuilder
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.logical import (
    LogicalNode,
    ProcessorLogicalNode,
    StoreLogicalNode,
    TableSourceLogicalNode,
)
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.streams.expired_rows import ExpiredRowsNode

_Operator = ProcessorLogicalNode | TableSourceLogicalNode


def taken_expired_stream(
    builder: InternalStreamsBuilder, name: str, key: Any, value: Any
) -> StreamFlow[Any, Any]:
    """The stream of the rows that expire of the store with ``expired=name``."""
    spec = _store_with(builder, name)
    operators = [
        node
        for node in dict.fromkeys(builder.graph.added)
        if isinstance(node, _Operator) and spec.name in node.node.store_names()
    ]
    if not operators:
        raise declaration_error(
            f"Store {spec.name!r} has expired={name!r}, but no operator declared so far is"
            " connected to it. Declare the operator first, then take the stream."
        )
    if any(isinstance(node.node, ExpiredRowsNode) for node in operators):
        raise declaration_error(
            f"The stream {name!r} of rows that expire was taken already. Keep what the first call"
            " returned, which may be read by several operators."
        )
    check_name(name, "a stream of rows that expire")
    logical = ProcessorLogicalNode(
        ExpiredRowsNode(name, spec), ends_windows=True, output_versioned=False
    )
    builder.graph.add(operators, logical)
    use = f"the stream {name!r}"
    # Elements have serdes for their order, and those of a map are pairs here.
    known = spec.value if spec.element is None else None
    return StreamFlow(
        builder,
        name,
        logical,
        _sources_above(operators),
        optional_serde(key, spec.key, f"the key of {use}"),
        optional_serde(value, known, f"the value of {use}"),
        # Processors put under any key; keys of a table are those of its partitions.
        needs_repartition=not any(isinstance(node.node, TableNode) for node in operators),
    )


def _store_with(builder: InternalStreamsBuilder, name: str) -> StoreSpec:
    found: dict[str, StoreSpec] = {}
    for node in builder.graph.added:
        specs: tuple[StoreSpec, ...] = ()
        if isinstance(node, StoreLogicalNode):
            specs = (node.spec,)
        elif isinstance(node, _Operator):
            specs = node.node.own_stores()
        found |= {spec.name: spec for spec in specs if spec.expired is not None}
    named = [spec for spec in found.values() if spec.expired == name]
    if len(named) == 1:
        return named[0]
    if named:
        stores = " and ".join(repr(spec.name) for spec in named)
        raise declaration_error(
            f"The stores {stores} have expired={name!r}. Give each its own stream, and merge() the"
            " streams if you want one."
        )
    known = ", ".join(repr(spec.expired) for spec in found.values()) or "none"
    raise declaration_error(
        f"No store declared so far has expired={name!r}; streams so far: {known}. Declare the"
        f" operator with the store first, with ttl= and expired={name!r}."
    )


def _sources_above(nodes: list[_Operator]) -> frozenset[str]:
    """The physical sources of their sub-topology."""
    found: set[str] = set()
    above: list[LogicalNode] = list(nodes)
    for node in above:
        if isinstance(node, TableSourceLogicalNode):
            found.add(node.source.name)
        elif node.begins_chain or not any(parent.name != "root" for parent in node.parents):
            found.add(node.name)
        else:
            above.extend(parent for parent in node.parents if parent not in above)
    return frozenset(found)
