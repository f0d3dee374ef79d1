"""Building an as-of join: of a stream with a table that keeps a history, or of two streams.

With a table it is the join of a stream with a versioned table, with a tolerance. With a stream it
is the interval join with ``within=(tolerance, 0)`` and ``match="last"``, and has its names.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Literal, Required, TypeAlias, TypedDict, TypeVar, get_args

from logstate.contracts.serde_types import SerdeLike
from logstate.topology.declaring.argument_checks import check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.windows import JoinWindows, duration_ms
from logstate.topology.dsl.flow import R
from logstate.topology.dsl.interval_join import one_match_joined
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.stream_table_join import join_table
from logstate.topology.dsl.table_flow import TableFlow

AsOfKind: TypeAlias = Literal["inner", "left"]
S = TypeVar("S", bound=StreamFlow[Any, Any])


class AsOfTableOptions(TypedDict, Generic[R], total=False):
    """Options of an as-of join with a table: tolerance, grace, idle time, serdes, name, late
    stream.
    """

    tolerance: timedelta | None
    grace: timedelta | None
    close_on_idle: timedelta | None
    key: Any
    left_value: Any
    value: SerdeLike[R]
    name: str | None
    late: str | None


class AsOfStreamOptions(TypedDict, Generic[R], total=False):
    """Options of an as-of join with a stream: tolerance, grace, idle time, heartbeats, store base
    name, serdes, name, late stream.
    """

    tolerance: Required[timedelta]
    grace: timedelta | None
    close_on_idle: timedelta | None
    heartbeat: Callable[..., object] | None
    store: str | Materialized | None
    key: Any
    left_value: Any
    right_value: Any
    value: SerdeLike[R]
    name: str | None
    late: str | None


def as_of_joined(
    stream: S, other: Any, joiner: Callable[..., Any], how: AsOfKind, options: dict[str, Any]
) -> S:
    """The stream, each record joined with the newest row or record that is not after it."""
    options = {name: given for name, given in options.items() if given is not None}
    if how not in get_args(AsOfKind):
        raise declaration_error(
            f'how must be "inner" or "left", found {how!r}: an as-of join chooses for each left'
            " record, and right records have no results of their own."
        )
    if isinstance(other, TableFlow):
        check_options(options, AsOfTableOptions, "an as-of join with a table")
        stream._check_same_builder(other, "as_of_join")
        return _with_table(stream, other, joiner, how, options)
    if not isinstance(other, StreamFlow):
        raise declaration_error(
            f"as_of_join takes a KTable with a history or a KStream, found {other!r}. Global tables"
            " keep the current rows only: use join."
        )
    check_options(options, AsOfStreamOptions, "an as-of join with a stream")
    stream._check_same_builder(other, "as_of_join")
    if "tolerance" not in options:
        raise declaration_error(
            "An as-of join of two streams needs tolerance=, how much older than a record its match"
            " may be: without it every record of the other stream would have to be kept for ever."
            " Or join with a table that has a history."
        )
    tolerance, grace = options.pop("tolerance"), options.pop("grace", timedelta(0))
    duration_ms(tolerance, "tolerance of an as-of join")
    idle = options.pop("close_on_idle", None)
    windows = JoinWindows(before=tolerance, grace=grace, close_on_idle=idle)
    return one_match_joined(stream, other, joiner, how, windows, options, takes_last=True)


def _with_table(
    stream: S,
    table: TableFlow[Any, Any],
    joiner: Callable[..., Any],
    how: AsOfKind,
    options: dict[str, Any],
) -> S:
    if not table.node.is_versioned():
        raise declaration_error(
            f"as_of_join needs a table with a history, but {table.name!r} keeps only the latest row"
            " per key. Give the table a history: store=Materialized(..., history=...), or use join"
            " for the current row."
        )
    tolerance = options.pop("tolerance", None)
    if tolerance is not None:
        options["tolerance_ms"] = duration_ms(tolerance, "tolerance of an as-of join")
    return join_table(stream, table, joiner, is_left=how == "left", **options)
