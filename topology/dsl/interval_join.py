"""Building an interval join of two streams: all matches of a record, or the first or last one.

All matches are those of a join with :class:`JoinWindows`. Names of the others, for a join named
``j`` over stores based on ``s``: operators ``j-left-side``, ``j-right-side``, ``j-merge``; stores
``s-left-buffer`` and ``s-right-store``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Literal, Required, TypeAlias, TypedDict, TypeVar, get_args

from logstate.contracts.serde_types import SerdeLike
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind, check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.dsl.flow import R
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import Materialized, materialized
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.stream_stream_join import JoinKind, StreamStreamJoin
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.joins.interval_join import IntervalLeftNode, IntervalRightNode
from logstate.topology.operators.streams.pass_through import PassThroughNode

Match: TypeAlias = Literal["all", "first", "last"]
S = TypeVar("S", bound=StreamFlow[Any, Any])


class IntervalJoinOptions(TypedDict, Generic[R], total=False):
    """Options of an interval join: interval, match, grace, idle time, store base name, serdes,
    name, late stream, heartbeats.
    """

    within: Required[tuple[timedelta, timedelta]]
    match: Match
    grace: timedelta
    close_on_idle: timedelta | None
    heartbeat: Callable[..., object] | None
    store: str | Materialized | None
    key: Any
    left_value: Any
    right_value: Any
    value: SerdeLike[R]
    name: str | None
    late: str | None


class OneMatchJoin(StreamStreamJoin[S]):
    """A join of each left record with at most one right record, while it is being built."""

    sends_pairs_at_once = False

    def __init__(
        self,
        *sides: Any,
        takes_last: bool,
        heartbeat: Callable[..., object] | None,
        **options: Any,
    ) -> None:
        super().__init__(*sides, **options)
        self.takes_last = takes_last
        self.heartbeat = None if heartbeat is None else callbacks.predicate(heartbeat)

    def build(self) -> S:
        """Add everything to the graph; the joined stream."""
        left, right = self._repartitioned()
        source_names = left.source_names | right.source_names
        self.graph.copartition(source_names)
        both: dict[str, Any] = {
            "clock": self.name,
            "windows": self.windows,
            "joiner": self.joiner,
            "takes_last": self.takes_last,
            "is_left": self.is_left,
            "buffer": self._waiting_store(
                f"{self.store.name}-left-buffer",
                "join_buffer",
                self.left_value,
                in_memory=self._in_memory(self.store),
            ),
            "rows": self._window_store(None, "-right", self.right_value, more_ms=1),
        }
        left_side = left._add(
            IntervalLeftNode(check_name(f"{self.name}-left-side", "an operator"), **both)
        )
        left_side.relaxed_null_key = self.is_left
        right_side = right._add(
            IntervalRightNode(
                check_name(f"{self.name}-right-side", "an operator"),
                heartbeat=self.heartbeat,
                **both,
            )
        )
        union = check_name(f"{self.name}-merge", "an operator")
        logical = ProcessorLogicalNode(PassThroughNode(union))
        sides = [left_side, right_side]
        self.graph.add(sides, logical)
        add_late_stream(
            self.late,
            sides,
            left,
            source_names,
            key=self.key,
            value=self.left_value if self.left_value == self.right_value else None,
        )
        return left._derive(
            union,
            logical,
            key=self.key,
            value=self.value,
            source_names=source_names,
            needs_repartition=False,
        )


def interval_joined(
    stream: S,
    other: StreamFlow[Any, Any],
    joiner: Callable[..., Any],
    how: JoinKind,
    options: dict[str, Any],
) -> S:
    """The stream joined with the records of another one that are in an interval around its own."""
    check_kind(other, StreamFlow, "interval_join", "a KStream", "With a table: join or as_of_join.")
    stream._check_same_builder(other, "interval_join")
    options = {name: given for name, given in options.items() if given is not None}
    check_options(options, IntervalJoinOptions, "an interval join")
    match = options.pop("match", "all")
    if match not in get_args(Match):
        raise declaration_error(
            f'match must be "all", "first" or "last", found {match!r}: every match of a record, or'
            " the one with the smallest or the largest timestamp."
        )
    if how not in get_args(JoinKind):
        raise declaration_error(
            f'how must be "inner", "left" or "outer", found {how!r}: which records have a result'
            " without a match."
        )
    windows = _windows(options)
    if match == "all":
        return _all_matches(stream, other, joiner, how, windows, options)
    if how == "outer":
        raise declaration_error(
            f'match={match!r} chooses a right record for each left one, and how="outer" would also'
            ' send right records that none has chosen. Use how="left", or match="all".'
        )
    return one_match_joined(
        stream, other, joiner, how, windows, options, takes_last=match == "last"
    )


def one_match_joined(
    stream: S,
    other: StreamFlow[Any, Any],
    joiner: Callable[..., Any],
    how: JoinKind,
    windows: JoinWindows,
    options: dict[str, Any],
    *,
    takes_last: bool,
) -> S:
    """The stream, each record joined with at most one record of the other."""
    options["store"] = materialized(options.get("store"))
    heartbeat = options.pop("heartbeat", None)
    return OneMatchJoin(
        stream,
        other,
        joiner,
        kind=how,
        windows=windows,
        takes_last=takes_last,
        heartbeat=heartbeat,
        **options,
    ).build()


def _all_matches(
    stream: S,
    other: StreamFlow[Any, Any],
    joiner: Callable[..., Any],
    how: JoinKind,
    windows: JoinWindows,
    options: dict[str, Any],
) -> S:
    if "heartbeat" in options:
        raise declaration_error(
            'heartbeat= says which records only advance stream time, and with match="all" no match'
            " waits for that. Leave it out, and filter() these records."
        )
    if windows.size_ms + windows.grace_ms == 0:
        raise declaration_error(
            "within= and grace= are 0: the stores of the join would keep nothing, and no record"
            " would have a match. Give a grace of at least 1 ms."
        )
    options["store"] = materialized(options.get("store"))
    return StreamStreamJoin(stream, other, joiner, kind=how, windows=windows, **options).build()


def _windows(options: dict[str, Any]) -> JoinWindows:
    """The interval and the grace, taken out of the options."""
    within = options.pop("within", None)
    if not isinstance(within, tuple) or len(within) != 2:
        raise declaration_error(
            f"An interval join needs within=(before, after), found {within!r}: how much earlier and"
            " how much later than a record its matches may be, two timedeltas."
        )
    before, after = within
    grace, idle = options.pop("grace", timedelta(0)), options.pop("close_on_idle", None)
    return JoinWindows(before=before, after=after, grace=grace, close_on_idle=idle)
