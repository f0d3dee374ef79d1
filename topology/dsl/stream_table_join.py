"""Building the joins of a stream with a table and with a global table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Required, TypedDict, TypeVar

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import duration_ms
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import required_name
from logstate.topology.dsl.flow import Flow, StreamFlow, TableFlow
from logstate.topology.dsl.global_table import GlobalKTable
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.operators.joins.global_table_join import GlobalTableJoinNode
from logstate.topology.operators.joins.stream_table_grace import StreamTableGraceJoinNode
from logstate.topology.operators.joins.stream_table_join import StreamTableJoinNode

S = TypeVar("S", bound=StreamFlow[Any, Any])


class StreamTableJoinOptions(TypedDict, total=False):
    """Options of a stream-table join: grace, the stream's serdes, name."""

    grace: timedelta | None
    key: Any
    value: Any
    name: str | None


class GlobalTableJoinOptions(TypedDict, total=False):
    """Options of a join with a global table: how to find the key of its row, name."""

    key_mapper: Required[Callable[..., Any]]
    name: str | None


def join_table(
    stream: S,
    table: TableFlow[Any, Any],
    joiner: Callable[..., Any],
    *,
    is_left: bool,
    grace: timedelta | None = None,
    key: Any = None,
    value: Any = None,
    name: str | None = None,
) -> S:
    """Inner or left join with a table; with ``grace`` through a buffer."""
    function = callbacks.joiner(joiner)
    builder = stream.builder
    if stream.needs_repartition:
        prefix = required_name(
            name,
            "A join of a stream whose key was changed",
            "the stream goes through a repartition topic first",
            'name="..."',
        )
        stream = stream._through_topic(
            prefix,
            stream._key_serde(key, f"repartition topic {prefix!r}"),
            stream._value_serde(value, f"repartition topic {prefix!r}"),
        )
    sources = stream.source_names | table.source_names
    builder.graph.copartition(sources)
    table.node.materialize()
    prefix = "KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-"
    sides: dict[str, Any] = {"table": table.node, "joiner": function, "is_left": is_left}
    node: ProcessorNode
    if grace is None:
        node = stream._node(StreamTableJoinNode, name, prefix, **sides)
    else:
        buffer = required_name(
            name, "A stream-table join with grace", "its buffer has a changelog topic", 'name="..."'
        )
        sides["grace_ms"] = _grace_ms(grace, table)
        sides["store"] = _buffer(stream, buffer, grace, key, value)
        node = stream._node(StreamTableGraceJoinNode, name, prefix, **sides)
    return _joined(stream, node, is_left=is_left, source_names=sources, needs_repartition=False)


def join_global_table(
    stream: S,
    table: GlobalKTable[Any, Any],
    joiner: Callable[..., Any],
    *,
    is_left: bool,
    key_mapper: Callable[..., Any] | None = None,
    name: str | None = None,
) -> S:
    """Inner or left join with a global table, by a mapped key."""
    if key_mapper is None:
        raise TopologyError(
            "A join with a global table needs key_mapper=: the function that computes the table's"
            " key from a record, for example lambda key, value: key.",
            declared_at=declaration_site(),
        )
    node = stream._node(
        GlobalTableJoinNode,
        name,
        "KSTREAM-LEFTJOIN-",
        store_name=table.store_name,
        key_mapper=callbacks.mapper(key_mapper, "key mapper"),
        joiner=callbacks.joiner(joiner),
        is_left=is_left,
    )
    return _joined(stream, node, is_left=is_left)


def _joined(stream: S, node: ProcessorNode, *, is_left: bool, **changed: Any) -> S:
    logical = stream._add(node)
    logical.relaxed_null_key = is_left
    return stream._derive(node.name, logical, value=None, **changed)


def _grace_ms(grace: timedelta, table: TableFlow[Any, Any]) -> int:
    grace_ms = duration_ms(grace, "grace of a stream-table join")
    if not table.node.is_versioned():
        raise TopologyError(
            f"A stream-table join with grace needs a versioned table, but {table.name!r} keeps only"
            " the latest row per key: a waiting record could not read the row of its own time. Give"
            " the table a history: store=Materialized(..., history=...).",
            declared_at=declaration_site(),
        )
    for store in table.node.own_stores():
        if store.history_ms is not None and grace_ms > store.history_ms:
            raise TopologyError(
                f"The grace of {grace_ms} ms is longer than the history of table {table.name!r}"
                f" ({store.history_ms} ms): rows would be gone before the records that wait for"
                " them. Lengthen the history.",
                declared_at=declaration_site(),
            )
    return grace_ms


def _buffer(stream: Flow[Any, Any], name: str, grace: timedelta, key: Any, value: Any) -> StoreSpec:
    return StoreSpec(
        name=f"{name}-Buffer",
        kind="join_buffer",
        key=stream._key_serde(key, f"the buffer of join {name!r}"),
        value=stream._value_serde(value, f"the buffer of join {name!r}"),
        grace_ms=duration_ms(grace, "grace"),
        declared_at=declaration_site(),
    )
