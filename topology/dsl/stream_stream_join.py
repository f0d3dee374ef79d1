"""Building a stream-stream join: repartitions, two window stores, two join nodes and their union.

Names, for a join named ``j`` over stores based on ``s``: operators ``j-this-windowed``,
``j-other-windowed``, ``j-this-join``, ``j-other-join``, ``j-merge``; stores ``s-this-join-store``,
``s-other-join-store``, and ``s-left-shared-join-store`` or ``s-outer-shared-join-store`` for rows
that wait unmatched. A side whose unmatched rows the OTHER side emits has ``outer-`` in its names.
A separate store of one side has its given name; the left one is then the base of the name of the
store for unmatched rows, and determines whether that is in memory (Kafka Streams' rule).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Literal, Required, TypedDict, TypeVar

from logstate.contracts.serde import Serde
from logstate.contracts.serde_types import SerdeLike
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import SideSerde
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.naming import check_name, required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.declaring.windows import JoinWindows, duration_ms
from logstate.topology.dsl.flow import R
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.joins.self_join import SelfJoinNode
from logstate.topology.operators.joins.stream_join import StreamJoinNode
from logstate.topology.operators.joins.stream_join_window import StreamJoinWindowNode
from logstate.topology.operators.streams.pass_through import PassThroughNode
from logstate.topology.plan.optimization import StreamJoinLogicalNode

JoinKind = Literal["inner", "left", "outer"]
S = TypeVar("S", bound=StreamFlow[Any, Any])


class StreamJoinOptions(TypedDict, Generic[R], total=False):
    """Options of a stream-stream join: its windows, store base name, serdes, name, late stream."""

    windows: Required[JoinWindows]
    store: str | Materialized | None
    left_store: str | Materialized | None
    right_store: str | Materialized | None
    key: Any
    left_value: Any
    right_value: Any
    value: SerdeLike[R]
    name: str | None
    late: str | None


class StreamStreamJoin(Generic[S]):
    """One join while it is being built."""

    #: an inner join that sends each pair when its second record arrives
    sends_pairs_at_once: ClassVar[bool] = True

    def __init__(
        self,
        left: S,
        right: StreamFlow[Any, Any],
        joiner: Callable[..., Any],
        *,
        kind: JoinKind,
        windows: JoinWindows,
        store: Materialized | None = None,
        left_store: Materialized | None = None,
        right_store: Materialized | None = None,
        key: Any = None,
        left_value: Any = None,
        right_value: Any = None,
        value: Any = None,
        name: str | None = None,
        late: str | None = None,
    ) -> None:
        self.late = late
        self.graph = left.builder.graph
        self.builder = left.builder
        self.name = required_name(
            name,
            "A stream-stream join",
            "its two window stores have changelog topics",
            'name="..."',
        )
        self.left = left
        self.right = right
        self.joiner = callbacks.joiner(joiner, value=value)
        self.is_left = kind in ("left", "outer")
        self.is_outer = kind == "outer"
        self.windows = windows
        if kind == "inner" and self.sends_pairs_at_once and windows.close_on_idle_ms is not None:
            raise declaration_error(
                f"The windows of inner join {name!r} have close_on_idle, but an inner join emits a"
                " pair when its second record arrives, and nothing waits. Leave it out, or use"
                " left_join or outer_join."
            )
        self.store = store if store is not None else Materialized(self.name)
        self.left_store = left_store
        self.right_store = right_store
        _check_stores(self.name, store, left_store, right_store)
        use = f"join {self.name!r}"
        self.key: Serde[Any] = left._key_serde(key, use)
        self.left_value = left._value_serde(left_value, f"the left side of {use}", "left_value=")
        self.right_value = right._value_serde(
            right_value, f"the right side of {use}", "right_value="
        )
        self.value = optional_serde(value, None, f"the result of {use}")
        self.declared_at = declaration_site()

    def build(self) -> S:
        """Add everything to the graph; the joined stream."""
        left, right = self._repartitioned()
        self.graph.copartition(left.source_names | right.source_names)
        names = self.graph.names
        this_windowed = names.suffixed(self.name, "-this-windowed", "KSTREAM-WINDOWED-")
        other_windowed = names.suffixed(self.name, "-other-windowed", "KSTREAM-WINDOWED-")
        names.skip_number()
        names.skip_number()
        union = names.suffixed(self.name, "-merge", "KSTREAM-MERGE-")
        this_suffix = "-outer-this-join" if self.is_outer else "-this-join"
        other_suffix = "-outer-other-join" if self.is_left else "-other-join"
        this_store = self._window_store(self.left_store, this_suffix, self.left_value)
        other_store = self._window_store(self.right_store, other_suffix, self.right_value)
        this_join, other_join = self._join_nodes(this_suffix, other_suffix, this_store, other_store)
        this_window = StreamJoinWindowNode(
            this_windowed, store=this_store, windows=self.windows, other_store=other_store.name
        )
        other_window = StreamJoinWindowNode(
            other_windowed,
            store=other_store,
            windows=self.windows,
            other_store=this_store.name,
            is_left_side=False,
        )
        logical = StreamJoinLogicalNode(
            union,
            this_window=left._add(this_window),
            other_window=right._add(other_window),
            this_join=this_join,
            other_join=other_join,
            union=PassThroughNode(union),
            self_join=SelfJoinNode(
                union, store_name=this_store.name, windows=self.windows, joiner=self.joiner
            ),
        )
        logical.relaxed_null_key = self.is_left
        self.graph.add([left.logical, right.logical], logical)
        sides = [logical.this_window, logical.other_window]
        add_late_stream(
            self.late,
            sides,
            left,
            left.source_names | right.source_names,
            key=self.key,
            value=self.left_value if self.left_value == self.right_value else None,
        )
        return left._derive(
            union,
            logical,
            key=self.key,
            value=self.value,
            source_names=left.source_names | right.source_names,
            needs_repartition=False,
        )

    def _repartitioned(self) -> tuple[S, StreamFlow[Any, Any]]:
        left, right = self.left, self.right
        if left.needs_repartition:
            left = left._through_topic(f"{self.name}-left", self.key, self.left_value)
        if right.needs_repartition:
            right = right._through_topic(f"{self.name}-right", self.key, self.right_value)
        return left, right

    def _join_nodes(
        self, this_suffix: str, other_suffix: str, this_store: StoreSpec, other_store: StoreSpec
    ) -> tuple[StreamJoinNode, StreamJoinNode]:
        shared: dict[str, Any] = {
            "outer_store": self._outer_store(),
            "windows": self.windows,
            "joiner": self.joiner,
            "clock": f"{self.name}-stream-time",
            "emit_interval_ms": self.builder.outer_join_emit_interval_ms,
        }
        sides = (
            (this_suffix, True, this_store, other_store, self.is_left, self.is_outer),
            (other_suffix, False, other_store, this_store, self.is_outer, self.is_left),
        )
        this_join, other_join = (
            StreamJoinNode(
                check_name(self.name + suffix, "an operator"),
                is_left_side=is_left_side,
                own_window_store=own.name,
                other_window_store=other.name,
                emits_unmatched=emits,
                other_emits_unmatched=other_emits,
                **shared,
            )
            for suffix, is_left_side, own, other, emits, other_emits in sides
        )
        return this_join, other_join

    def _window_store(
        self, own: Materialized | None, suffix: str, value: Serde[Any], *, more_ms: int = 0
    ) -> StoreSpec:
        """``more_ms``: for how much longer than Kafka Streams' it returns a record."""
        size_ms = self.windows.size_ms
        store, name = own or self.store, own and own.name
        return StoreSpec(
            name=name or check_name(f"{self.store.name}{suffix}-store", "a store"),
            kind="window",
            key=self.key,
            value=optional_serde(store.value, value, "the store") or value,
            in_memory=self._in_memory(store),
            is_logged=store.logged,
            window_size_ms=size_ms,
            retention_ms=size_ms + self.windows.grace_ms + more_ms,
            retain_duplicates=True,
            segment_interval_ms=_optional_ms(store),
            logs_headers=True,
            changelog_config=store.changelog_config,
            declared_at=self.declared_at,
        )

    def _outer_store(self) -> StoreSpec | None:
        if not self.is_left:
            return None
        side = "outer" if self.is_outer else "left"
        base = self.left_store or self.store
        return self._waiting_store(
            f"{base.name}-{side}-shared-join-store",
            "outer_join",
            SideSerde(self.left_value, self.right_value),
            in_memory=self._in_memory(base),
        )

    def _waiting_store(
        self, name: str, kind: str, value: Serde[Any], *, in_memory: bool
    ) -> StoreSpec:
        # A policy is meant for the windows: rows that wait do not expire.
        config = {k: v for k, v in self.store.changelog_config.items() if k != "cleanup.policy"}
        return StoreSpec(
            name=check_name(name, "a store"),
            kind=kind,
            key=self.key,
            value=value,
            in_memory=in_memory,
            is_logged=self.store.logged,
            changelog_config=config,
            declared_at=self.declared_at,
        )

    def _in_memory(self, store: Materialized) -> bool:
        given = self.store.in_memory if store.in_memory is None else store.in_memory
        return self.builder.defaults.in_memory if given is None else given


def _optional_ms(store: Materialized) -> int | None:
    interval = store.segment_interval
    use = f"segment_interval of store {store.name!r}"
    return None if interval is None else duration_ms(interval, use, at_least=1)


def _check_stores(name: str, *stores: Materialized | None) -> None:
    """Refuse what the windows of a join decide, and one store for both sides."""
    given = [store for store in stores if store is not None]
    for store in given:
        if store.headers is not None:
            raise declaration_error(
                f"Store {store.name!r} of join {name!r} has headers=, but the stores of a join log"
                " their records' headers always, and their rows keep none. Leave it out."
            )
        for option in ("retention", "history", "capacity", "ttl"):
            if getattr(store, option) is not None:
                raise declaration_error(
                    f"Store {store.name!r} of join {name!r} has {option}=, but its windows decide"
                    " what it keeps: every record for before + after + grace. Leave it out, and"
                    " give JoinWindows a longer grace where more is to be kept."
                )
    sides = stores[1:]
    if None not in sides and len({store.name for store in sides if store is not None}) == 1:
        raise declaration_error(
            f"left_store= and right_store= of join {name!r} have one name: each side keeps its own"
            " records, in a separate changelog. Give them different names."
        )
