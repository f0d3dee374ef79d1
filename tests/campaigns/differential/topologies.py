"""Draws a topology: sources, then operators on the flows there are, then a sink for each end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from . import aggregations, joins, stateless
from .drawing import Drawing, Drawn

_Operator = Callable[[Drawing, Drawn], None]

#: what may follow a stream; what stands twice is drawn twice as often
_OF_STREAMS: list[_Operator] = [
    stateless.filtered,
    stateless.map_values,
    stateless.map_records,
    stateless.select_key,
    *2 * [stateless.flat_map],
    stateless.flat_map_values,
    stateless.merge,
    stateless.to_table,
    stateless.repartition,
    stateless.split,
    *2 * [stateless.process],
    *2 * [stateless.process_values],
    stateless.through,
    *2 * [stateless.to_dynamic],
    *4 * [aggregations.group],
    aggregations.cogroup,
    *3 * [joins.stream_join],
    *5 * [joins.table_join],
    joins.global_join,
]
_OF_TABLES: list[_Operator] = [
    stateless.filtered,
    stateless.map_values,
    *2 * [stateless.to_stream],
    *2 * [aggregations.group_table],
    *2 * [aggregations.suppress],
    *2 * [joins.tables_join],
    stateless.transform_values,
    joins.foreign_key_join,
]
#: of a table whose rows no operator can look up
_OF_UPDATES: list[_Operator] = [stateless.filtered, stateless.map_values, stateless.to_stream]


def drawn_topology(rng: Random, *, emits_on_commit: bool = False) -> Drawing:
    """One to three sources, two to nine operators and what they need, sinks."""
    drawing = Drawing(rng, emits_on_commit=emits_on_commit)
    for _ in range(rng.choice((1, 2, 2, 3))):
        drawing.source()
    for _ in range(rng.randint(2, 9)):
        _operator(drawing)
    while groups := _without_aggregation(drawing):
        for flow in groups:
            aggregations.aggregation(drawing, flow)
    for flow in list(drawing.flows):
        if flow.name not in drawing.used:
            drawing.sink(flow)
    return drawing


def _without_aggregation(drawing: Drawing) -> list[Drawn]:
    """The groups there are that nothing aggregates; an aggregation may add another one."""
    groups = [flow for flow in drawing.flows if flow.kind.startswith("grouped")]
    return [flow for flow in groups if flow.name not in drawing.used]


def _operator(drawing: Drawing) -> None:
    rng = drawing.rng
    flow = rng.choice(drawing.flows[-4:] if drawing.chance(0.7) else drawing.flows)
    if flow.kind.startswith("grouped"):
        aggregations.aggregation(drawing, flow)
    elif flow.kind == "stream" and drawing.emits_on_commit and drawing.chance(0.3):
        aggregations.group(drawing, flow)
    elif flow.kind == "stream":
        rng.choice(_OF_STREAMS)(drawing, flow)
    elif not flow.has_rows:
        rng.choice(_OF_UPDATES)(drawing, flow)
    else:
        rng.choice(_OF_TABLES)(drawing, flow)
