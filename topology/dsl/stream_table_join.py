"""Building the joins of a stream with a table and with a global table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Required, TypedDict, TypeVar

from logstate.contracts.serde_types import SerdeLike
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.flow import Flow, GlobalKTable, R
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.operators.joins.global_table_join import GlobalTableJoinNode
from logstate.topology.operators.joins.stream_table_grace import StreamTableGraceJoinNode
from logstate.topology.operators.joins.stream_table_join import StreamTableJoinNode

S = TypeVar("S", bound=StreamFlow[Any, Any])


class StreamTableJoinOptions(TypedDict, Generic[R], total=False):
    """Options of a stream-table join.

    They are grace, idle time, serdes of stream and result, name, late stream.
    """

    grace: timedelta | None
    close_on_idle: timedelta | None
    key: Any
    left_value: Any
    value: SerdeLike[R]
    name: str | None
    late: str | None


class GlobalTableJoinOptions(TypedDict, Generic[R], total=False):
    """Options of a join with a global table: how to find the key of its row, serde, name."""

    key_mapper: Required[Callable[..., Any]]
    value: SerdeLike[R]
    name: str | None


def join_table(
    stream: S,
    table: TableFlow[Any, Any],
    joiner: Callable[..., Any],
    *,
    is_left: bool,
    grace: timedelta | None = None,
    close_on_idle: timedelta | None = None,
    key: Any = None,
    left_value: Any = None,
    value: Any = None,
    name: str | None = None,
    late: str | None = None,
    tolerance_ms: int | None = None,
) -> S:
    """Inner or left join with a table; with ``grace`` through a buffer.

    ``tolerance_ms``: how much older than the record the row of a versioned table may be.
    """
    if grace is None:
        _check_no_grace(late, close_on_idle)
    result = optional_serde(value, None, "the result of the join")
    for given, what in ((key, "key"), (left_value, "value")):
        optional_serde(given, None, f"the {what} of the stream")  # where they are needed or not
    function = callbacks.joiner(joiner, value=value)
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
            stream._value_serde(left_value, f"repartition topic {prefix!r}", "left_value="),
        )
    sources = stream.source_names | table.source_names
    builder.graph.copartition(sources)
    table.node.materialize()
    prefix = "KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-"
    sides: dict[str, Any] = {
        "table": table.node,
        "joiner": function,
        "is_left": is_left,
        "tolerance_ms": tolerance_ms,
    }
    node: ProcessorNode
    if grace is None:
        node = stream._node(StreamTableJoinNode, name, prefix, **sides)
    else:
        buffer = required_name(
            name, "A stream-table join with grace", "its buffer has a changelog topic", 'name="..."'
        )
        sides["grace_ms"] = _grace_ms(grace, table)
        if close_on_idle is not None:
            what = f"close_on_idle of join {name!r}"
            sides["idle_ms"] = duration_ms(close_on_idle, what, at_least=1)
        sides["store"] = _buffer(stream, buffer, grace, key, left_value)
        node = stream._node(StreamTableGraceJoinNode, name, prefix, **sides)
    joined = _joined(
        stream, node, is_left=is_left, value=result, source_names=sources, needs_repartition=False
    )
    value_serde = optional_serde(left_value, stream.value, "the value of the stream")
    add_late_stream(late, [joined.logical], stream, sources, value=value_serde)
    return joined


def _check_no_grace(late: str | None, close_on_idle: timedelta | None) -> None:
    """Refuse the options of a buffer for a join without one."""
    if late is not None:
        raise declaration_error(
            f"A stream-table join has late={late!r}, but without grace= it joins every record at"
            " once, and none is late. Leave it out, or give grace=."
        )
    if close_on_idle is not None:
        raise declaration_error(
            "A stream-table join has close_on_idle=, but without grace= it joins every record at"
            " once, and none waits. Leave it out, or give grace=."
        )


def join_global_table(
    stream: S,
    table: GlobalKTable[Any, Any],
    joiner: Callable[..., Any],
    *,
    is_left: bool,
    key_mapper: Callable[..., Any] | None = None,
    value: Any = None,
    name: str | None = None,
) -> S:
    """Inner or left join with a global table, by a mapped key."""
    if key_mapper is None:
        raise declaration_error(
            "A join with a global table needs key_mapper=: the function that computes the table's"
            " key from a record, for example lambda key, value: key."
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
    result = optional_serde(value, None, "the result of the join")
    return _joined(stream, node, is_left=is_left, value=result)


def _joined(stream: S, node: ProcessorNode, *, is_left: bool, **changed: Any) -> S:
    logical = stream._add(node)
    logical.relaxed_null_key = is_left
    return stream._derive(node.name, logical, **changed)


def _grace_ms(grace: timedelta, table: TableFlow[Any, Any]) -> int:
    grace_ms = duration_ms(grace, "grace of a stream-table join")
    store = table.node.versioned_store()
    if store is None:
        raise declaration_error(
            f"A stream-table join with grace needs a versioned table, but {table.name!r} keeps only"
            " the latest row per key: a waiting record could not read the row at its own time. Give"
            " the table a history: store=Materialized(..., history=...)."
        )
    history_ms = store.history_ms or 0
    if grace_ms > history_ms:
        raise declaration_error(
            f"The grace of {grace_ms} ms is longer than the history of table {table.name!r}, whose"
            f" rows are those of store {store.name!r} ({history_ms} ms, declared at"
            f" {store.declared_at}): rows would be gone before the records that wait for them."
            " Lengthen the history, or shorten the grace."
        )
    return grace_ms


def _buffer(
    stream: Flow[Any, Any], name: str, grace: timedelta, key: Any, left_value: Any
) -> StoreSpec:
    return StoreSpec(
        name=f"{name}-Buffer",
        kind="join_buffer",
        key=stream._key_serde(key, f"the buffer of join {name!r}"),
        value=stream._value_serde(left_value, f"the buffer of join {name!r}", "left_value="),
        grace_ms=duration_ms(grace, "grace"),
        declared_at=declaration_site(),
    )
