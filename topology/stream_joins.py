"""The joins of a stream: with a stream inside a time window, with a table, with a global table.

=============  =======================  ====================================================
other side     who triggers results     what must be co-partitioned
=============  =======================  ====================================================
stream         both                     both streams; a changed key goes through a topic first
table          the stream               stream and table
global table   the stream               nothing: every instance has the whole table
=============  =======================  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from logstate.errors import TopologyError
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V
from logstate.topology.global_table import GlobalKTable
from logstate.topology.materialized import materialized
from logstate.topology.options import StreamJoinOptions, StreamTableJoinOptions
from logstate.topology.stream_table_join import join_global_table, join_table
from logstate.topology.table import KTable
from logstate.topology.windows import JoinWindows

if TYPE_CHECKING:
    from logstate.topology.stream import KStream

V2 = TypeVar("V2")
R = TypeVar("R")
Joiner = Callable[..., Any]


class JoinOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Inner join: a result for every pair of matching records.

        With a stream: give ``windows``. A left record at t matches right records in [t - before,
        t + after]; the result has the larger timestamp. Null keys and values are dropped and
        counted. ``store`` is the base of the two window stores' names (default: ``name``).

        With a table: the row of now (of a versioned table: the row as of the record's time). With
        ``grace`` (KIP-923, versioned tables only) records wait that long for late table updates.

        With a global table: the row found under ``key_mapper(value)`` or
        ``key_mapper(key, value)``.

        ``joiner`` is ``(left, right)`` or ``(key, left, right)``. ``key``, ``value`` and
        ``other_value`` are serdes, where they are not known from above.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "inner", options)
        return joined

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def left_join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Left join: every record of this stream has a result; without a match right is None.

        With a stream, an unmatched record's result comes when its window and grace are over, and
        only when later records show that (KIP-633). A null key has no match: its result is
        immediate (KIP-962). Everything else is as in :meth:`join`.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "left", options)
        return joined

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    def outer_join(
        self,
        other: KStream[K, Any],
        joiner: Joiner,
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, Any]:
        """Outer join of two streams: like :meth:`left_join`, for both sides."""
        joined: KStream[K, Any] = self._join(
            other, joiner, "outer", {"windows": windows, **options}
        )
        return joined

    def _join(self, other: Any, joiner: Joiner, kind: Any, options: dict[str, Any]) -> Any:
        options = {name: given for name, given in options.items() if given is not None}
        if isinstance(other, KTable):
            _only(options, {"grace", "key", "value", "name"}, "a stream-table join")
            self._check_same_builder(other, "join")
            return join_table(self, other, joiner, is_left=kind == "left", **options)
        if isinstance(other, GlobalKTable):
            _only(options, {"key_mapper", "name"}, "a stream-global-table join")
            return join_global_table(self, other, joiner, is_left=kind == "left", **options)
        if not isinstance(other, JoinOperators):
            raise TopologyError(
                f"A stream cannot be joined with {other!r}: expected a KStream, KTable or"
                " GlobalKTable.",
                declared_at=declaration_site(),
            )
        _only(
            options,
            {"windows", "store", "key", "value", "other_value", "name"},
            "a stream-stream join",
        )
        if "windows" not in options:
            raise TopologyError(
                "A stream-stream join needs windows=: without a time span every record of one side"
                " would have to wait for ever. Give JoinWindows(before=..., after=..., grace=...),"
                " or join with a table.",
                declared_at=declaration_site(),
            )
        self._check_same_builder(other, "join")
        from logstate.topology.stream_stream_join import StreamStreamJoin

        options["store"] = materialized(options.get("store"))
        return StreamStreamJoin(self, other, joiner, kind=kind, **options).build()


def _only(options: dict[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(options.keys() - known):
        raise TopologyError(
            f"{what} has no option {', '.join(unknown)}; it takes {', '.join(sorted(known))}.",
            declared_at=declaration_site(),
        )
