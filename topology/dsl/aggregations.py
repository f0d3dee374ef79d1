"""What aggregations have in common: how they fold, the store they need, their nodes and keys.

One declaration serves all: of streams and tables, without windows, with windows or with sessions,
of one group or of several.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

from logstate.contracts.serde import Serde
from logstate.contracts.serde_types import SerdeLike
from logstate.contracts.stores import StoreSpec
from logstate.serdes.scalars import int64
from logstate.serdes.windowed_serdes import SessionWindowedSerde, WindowedSerde
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_emit
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import optional_serde, required_serde
from logstate.topology.declaring.windows import Emit, SessionWindows, SlidingWindows
from logstate.topology.dsl.flow import Flow, left_out
from logstate.topology.dsl.materialized import (
    AnyWindows,
    Materialized,
    agreed_value,
    key_value_spec,
    materialized,
    window_size_ms,
    windowed_spec,
)
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.aggregates.emit_on_commit import Difference
from logstate.topology.operators.aggregates.fold import (
    AggregateNode,
    FoldNode,
    count_one,
    no_aggregate,
)
from logstate.topology.operators.aggregates.session_aggregate import SessionAggregateNode
from logstate.topology.operators.aggregates.sliding_aggregate import SlidingAggregateNode
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode

#: aggregates
A = TypeVar("A")
#: (key, value, aggregate) -> aggregate; a merger of sessions is (key, a, b) -> aggregate
Aggregator: TypeAlias = Callable[[Any, Any, Any], Any]


class AggregateOptions(TypedDict, Generic[A], total=False):
    """Options of an aggregation: the aggregate's serde, its store, what it sends, its name."""

    value: SerdeLike[A]
    store: str | Materialized | None
    emit: Emit
    difference: Callable[[A, A], A] | None
    name: str | None


class FoldOptions(AggregateOptions[A], total=False):
    """Options of an aggregation of a stream: those, and the name of its late stream."""

    late: str | None


class Fold(NamedTuple):
    """How values become an aggregate. Several groups of a cogroup differ in their aggregator."""

    #: of the operator's generated name
    prefix: str
    #: None means reduce: the first value is the aggregate
    initializer: Callable[[], Any] | None
    aggregator: Aggregator
    #: for sessions
    merger: Aggregator | None = None
    #: the default serde of the aggregate
    value: Serde[Any] | None = None
    #: for ``emit="delta"``, unless the user gives one
    difference: Difference | None = None
    #: why there is no difference, and what to do
    no_difference: str = (
        "only you know what has to be added to one aggregate to get another. Give"
        " difference=lambda new, old: new - old, or use count() or agg(...) with Count() and Sum()"
    )
    #: why aggregates of two sessions cannot be merged, and what to do; "" if they can
    no_merger: str = ""


COUNT = Fold(
    "KSTREAM-AGGREGATE-", lambda: 0, count_one, lambda _key, a, b: a + b, int64, operator.sub
)
TABLE_COUNT = Fold("KTABLE-AGGREGATE-", lambda: 0, count_one, value=int64, difference=operator.sub)


def as_aggregator(reducer: Callable[[Any, Any], Any]) -> Aggregator:
    """A reducer as an aggregator that starts with nothing."""

    def reduce(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else reducer(aggregate, value)

    reduce.__wrapped__ = reducer  # type: ignore[attr-defined]  # errors name the user's function
    return reduce


def reduction(reducer: Callable[..., Any], value: Serde[Any] | None) -> Fold:
    """Return the fold of a stream's reduce()."""
    function = as_aggregator(callbacks.reducer(reducer))
    # Merging folds found sessions into a fresh aggregate, so the left one may be None.
    return Fold("KSTREAM-REDUCE-", None, function, lambda key, a, b: function(key, b, a), value)


def required_store(store: str | Materialized | None, what: str) -> Materialized:
    """The store's options; an aggregation always has a store, and its name is in its changelog."""
    options = materialized(store)
    if options is None:
        raise declaration_error(
            f"{what} needs a name for its store: the store has a changelog topic and a directory,"
            " and a generated name would change when an operator is added before it. Give"
            ' store="some-name".'
        )
    check_name(options.name, "a store")
    return options


def value_serde(options: Materialized, value: Any, known: Serde[Any] | None = None) -> Serde[Any]:
    """The aggregate's serde: from the store's options, else from the call, else the known one.

    Raises TopologyError where both say one, and not the same.
    """
    use = f"the value of store {options.name!r}"
    said = agreed_value(options, optional_serde(value, None, use))
    return required_serde(said, known, use, "value=")


def _default_serde(
    store: Materialized, part: str, spec: Any, known: Serde[Any] | None, grouped: Flow[Any, Any]
) -> Serde[Any]:
    """A serde that comes with the records, or from the store's options: no call has it."""
    return required_serde(
        spec,
        known,
        f"the {part} of store {store.name!r}",
        f"store=Materialized({store.name!r}, {part}=...)",
        missing=lambda: left_out(part, grouped.logical),
    )


def aggregate_store(
    what: str,
    windows: AnyWindows | None,
    grouped: Flow[Any, Any],
    options: AggregateOptions[Any],
    fold: Fold,
) -> StoreSpec:
    """The store that an aggregation asks for, once its options are checked."""
    store, defaults = required_store(options.get("store"), what), grouped.builder.defaults
    emit = options.get("emit", "update")
    check_emit(emit, windows)
    key = _default_serde(store, "key", store.key, grouped.key, grouped)
    if fold.initializer is None:
        value = _default_serde(store, "value", store.value, fold.value, grouped)
    else:
        value = value_serde(store, options.get("value"), fold.value)
    if windows is None:
        return key_value_spec(store, key, value, defaults)
    return windowed_spec(
        store, key, value, defaults, windows=windows, keep_at_retention=emit == "close"
    )


class EmitOption(NamedTuple):
    """When an aggregation sends, and the function of its deltas if it sends those."""

    emit: Emit
    difference: Difference | None = None

    @classmethod
    def of(cls, options: AggregateOptions[Any], fold: Fold) -> EmitOption:
        """Return the emission of an aggregation; raises TopologyError for one that has none."""
        emit, difference = options.get("emit", "update"), options.get("difference")
        if emit != "delta":
            if difference is not None:
                raise declaration_error(
                    f'difference= is for emit="delta", which sends differences; found'
                    f' emit="{emit}". Leave it out, or use emit="delta".'
                )
            return cls(emit)
        if difference is not None:
            callbacks.of_shape(difference, "difference", "(new, old)", 2)
            return cls("commit", difference)
        if fold.difference is None:
            raise declaration_error(
                'emit="delta" sends what was added to an aggregate since the commit before. Here'
                f" {fold.no_difference}."
            )
        return cls("commit", fold.difference)


@dataclass(frozen=True)
class StreamAggregation:
    """An aggregation of a stream: makes its node (of a cogroup one per group) over one store."""

    windows: AnyWindows | None
    store: StoreSpec
    emission: EmitOption
    emit_interval_ms: int | None

    def node(self, name: str, fold: Fold) -> FoldNode:
        """The operator for these windows."""
        options: dict[str, Any] = {
            "store": self.store,
            "initializer": fold.initializer or no_aggregate,
            "aggregator": fold.aggregator,
            "emit": self.emission.emit,
        }
        windows = self.windows
        if windows is None:
            return AggregateNode(name, **options)
        options["emit_interval_ms"] = self.emit_interval_ms
        if isinstance(windows, SessionWindows):
            if fold.no_merger:
                raise declaration_error(
                    f"A record between two sessions makes them one. Here {fold.no_merger}."
                )
            assert fold.merger is not None
            return SessionAggregateNode(name, windows=windows, merger=fold.merger, **options)
        if isinstance(windows, SlidingWindows):
            return SlidingAggregateNode(name, windows=windows, **options)
        return WindowAggregateNode(name, windows=windows, **options)

    def logical_node(self, node: FoldNode) -> ProcessorLogicalNode:
        """The place of a node in the graph."""
        logical = ProcessorLogicalNode(node, output_versioned=self.store.is_versioned)
        if self.windows is not None:
            logical.window_grace_ms = self.windows.grace_ms
        if isinstance(self.windows, SessionWindows):
            logical.window_grace_ms = self.windows.grace_ms + self.windows.gap_ms
        return logical

    def result_key(self) -> Serde[Any]:
        """The serde of the table's keys."""
        if self.windows is None:
            return self.store.key
        if isinstance(self.windows, SessionWindows):
            return SessionWindowedSerde(self.store.key)
        size_ms = window_size_ms(self.windows)
        return WindowedSerde(self.store.key, size_ms, end_of=self.store.window_end)
