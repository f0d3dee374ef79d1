"""Late streams: declared by an operator with ``late=``, taken from the builder by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logstate.contracts.late_record import LateRecord
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import type_of
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import optional_serde, required_serde
from logstate.topology.dsl.flow import Flow, InternalStreamsBuilder, K, LateStream, V
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import (
    LogicalNode,
    ProcessorLogicalNode,
    TableSourceLogicalNode,
)
from logstate.topology.operators.streams.late_records import LateRecordsNode


def add_late_stream(
    name: str | None,
    operators: Sequence[LogicalNode],
    records: Flow[Any, Any],
    source_names: frozenset[str],
    *,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
) -> None:
    """Let operators emit their late records as one stream; nothing without a name.

    ``records``: what they read; its serdes are those of the late records if none are given. The
    stream burns no number of generated names, so adding it renames no other operator.
    """
    if name is None:
        return
    builder = records.builder
    check_name(name, "a late stream")
    if name in builder.late_streams:
        first = builder.late_streams[name].logical.declared_at or "elsewhere"
        raise declaration_error(
            f"Two operators have late={name!r}; the other one is declared at {first}. Give each"
            " its own stream, and merge() the streams if you want one."
        )
    logical = ProcessorLogicalNode(LateRecordsNode(name), ends_windows=True, output_versioned=False)
    for operator in operators:
        assert isinstance(operator, ProcessorLogicalNode | TableSourceLogicalNode)
        operator.node.late = name
    builder.graph.add(operators, logical)
    builder.late_streams[name] = LateStream(
        logical, source_names, key or records.key, value or records.value
    )


def add_late_changes(name: str | None, table: TableFlow[K, V]) -> TableFlow[K, V]:
    """Let a table that is read from a topic or a stream emit what is older than its history."""
    if name is None:
        return table
    if not table.node.is_versioned():
        raise declaration_error(
            f"A table has late={name!r}, but its store keeps no history: it applies every record as"
            " it comes, and none is late. Leave it out, or give the store a history:"
            " store=Materialized(..., history=timedelta(...))."
        )
    add_late_stream(name, [table.logical], table, table.source_names)
    return table


def taken_late_stream(
    builder: InternalStreamsBuilder, name: str, key: Any, value: Any
) -> StreamFlow[Any, Any]:
    """The late stream of a name, with the serdes of its keys and of its late records."""
    found = builder.late_streams.get(name)
    if found is None:
        known = ", ".join(map(repr, builder.late_streams)) or "none"
        raise declaration_error(
            f"No operator declared so far has late={name!r}; late streams so far: {known}. Declare"
            f" the operator first, for example count(store=..., late={name!r})."
        )
    use = f"late stream {name!r}"
    keys = optional_serde(key, found.key, f"the key of {use}")
    values = optional_serde(value, found.value, f"the value of {use}")
    serde = None
    key_type = None if keys is None else type_of(keys)
    value_type = None if values is None else type_of(values)
    if key_type is not None and value_type is not None:
        late_type: Any = LateRecord[key_type, value_type | None]  # type: ignore[valid-type]
        serde = required_serde(late_type, None, use, "value=")
    else:
        found.logical.leaves_out.add("value")
    if keys is None:
        found.logical.leaves_out.add("key")
    return StreamFlow(
        builder, name, found.logical, found.source_names, keys, serde, needs_repartition=False
    )
