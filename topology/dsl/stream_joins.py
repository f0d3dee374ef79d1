"""Joins of a stream: what the other side is decides which join it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from logstate.topology.declaring.argument_checks import check_join_windows, check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.flow import GlobalKTable
from logstate.topology.dsl.materialized import materialized
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.stream_stream_join import JoinKind, StreamJoinOptions, StreamStreamJoin
from logstate.topology.dsl.stream_table_join import (
    GlobalTableJoinOptions,
    StreamTableJoinOptions,
    join_global_table,
    join_table,
)
from logstate.topology.dsl.table_flow import TableFlow

S = TypeVar("S", bound=StreamFlow[Any, Any])


def join_stream(
    stream: S, other: Any, joiner: Callable[..., Any], kind: JoinKind, options: dict[str, Any]
) -> S:
    """The stream joined with a stream, a table or a global table."""
    options = {name: given for name, given in options.items() if given is not None}
    if kind == "outer" and isinstance(other, TableFlow | GlobalKTable):
        raise declaration_error(
            "A stream has no outer join with a table: an update of the table has no record of the"
            " stream to go with. Use left_join, or give the table's stream, and windows=."
        )
    if isinstance(other, TableFlow):
        check_options(options, StreamTableJoinOptions, "a stream-table join")
        stream._check_same_builder(other, "join")
        return join_table(stream, other, joiner, is_left=kind == "left", **options)
    if isinstance(other, GlobalKTable):
        check_options(options, GlobalTableJoinOptions, "a stream-global-table join")
        return join_global_table(stream, other, joiner, is_left=kind == "left", **options)
    if not isinstance(other, StreamFlow):
        raise declaration_error(
            f"A stream is joined with a KStream, KTable or GlobalKTable, found {other!r}. Read"
            " it from a topic first, or aggregate it."
        )
    check_options(options, StreamJoinOptions, "a stream-stream join")
    if "windows" not in options:
        raise declaration_error(
            "A stream-stream join needs windows=: without a time span every record of one side"
            " would have to wait for ever. Give JoinWindows(before=..., after=..., grace=...),"
            " or join with a table."
        )
    check_join_windows(options["windows"])
    stream._check_same_builder(other, "join")
    for store in ("store", "left_store", "right_store"):
        options[store] = materialized(options.get(store))
    return StreamStreamJoin(stream, other, joiner, kind=kind, **options).build()
