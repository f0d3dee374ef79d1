"""Building a cogroup: an aggregation node per group over one store, and what unites them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.cogroup_merge import CogroupMergeNode

Aggregator = Callable[[Any, Any, Any], Any]
Groups = tuple[tuple[KGroupedStream[Any, Any], Aggregator], ...]
#: (name, store, aggregator) -> the aggregation node of one group
MakeNode = Callable[[str, StoreSpec, Aggregator], TableNode]


def build_cogroup(
    groups: Groups,
    spec: StoreSpec,
    make: MakeNode,
    *,
    name: str | None,
    key: Serde[Any],
    output_versioned: bool = False,
    grace_ms: int | None = None,
) -> KTable[Any, Any]:
    """Repartitions first, then one aggregation node per group, then the node that unites them."""
    builder = groups[0][0].builder
    graph = builder.graph
    inputs: list[LogicalNode] = []
    sources: frozenset[str] = frozenset()
    for grouped, _ in groups:
        parent, names = grouped._input_of(spec)
        inputs.append(parent)
        sources |= names
    graph.copartition(sources)
    nodes: list[TableNode] = []
    logicals: list[LogicalNode] = []
    for number, ((_, aggregator), parent) in enumerate(zip(groups, inputs, strict=True)):
        node_name = graph.names.suffixed(
            name, f"-cogroup-agg-{number}", "COGROUPKSTREAM-AGGREGATE-"
        )
        node = make(node_name, spec, aggregator)
        node.group_number = number
        logical = ProcessorLogicalNode(node, output_versioned=output_versioned)
        logical.window_grace_ms = grace_ms
        graph.add(parent, logical)
        nodes.append(node)
        logicals.append(logical)
    merge_name = graph.names.suffixed(name, "-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merge = CogroupMergeNode(
        merge_name, parents=tuple(nodes), store=spec, declared_at=declaration_site()
    )
    merged = ProcessorLogicalNode(merge)
    graph.add(logicals, merged)
    return KTable(builder, merge_name, merged, sources, key, spec.value, merge)
