"""Building an aggregation in count windows: its stores, and the operator behind the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypedDict

from logstate.contracts.serde import Serde
from logstate.contracts.serde_types import SerdeLike
from logstate.serdes.built_in import list_of
from logstate.serdes.scalars import int64
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.windows import CountWindows
from logstate.topology.dsl.aggregations import A, Fold, required_store, value_serde
from logstate.topology.dsl.grouped_flow import GroupedFlow
from logstate.topology.dsl.materialized import Materialized, key_value_spec, refuse_options
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.aggregates.count_window import CountedValuesSerde, CountWindowNode
from logstate.topology.operators.aggregates.fold import no_aggregate
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from logstate.topology.processor.key_timers import timer_store

_NOT_OF_OPEN_WINDOWS = {
    "retention": "rows are deleted when the windows of their key close",
    "history": "rows are open windows, which have no versions",
    "capacity": "it would remove windows that are open",
    "ttl": "it would remove windows that are open; timeout= closes them",
    "indexes": "its rows are the open windows of count windows or batches",
}


class CountOptions(TypedDict, Generic[A], total=False):
    """Options of an aggregation in count windows: the aggregate's serde, its store, its name."""

    value: SerdeLike[A]
    store: str | Materialized | None
    name: str | None


def counted(
    grouped: GroupedFlow[Any, Any],
    windows: CountWindows,
    fold: Fold,
    *,
    value: Any = None,
    store: str | Materialized | None = None,
    name: str | None = None,
    result: tuple[Callable[[Any], Any], Serde[Any]] | None = None,
    is_batch: bool = False,
) -> StreamFlow[Any, Any]:
    """The stream of the results of count windows.

    ``result``: makes a result of a fold's aggregate, and its serde; None: they are the same.
    ``is_batch``: windows close a timeout after their first value, and keep their values.
    """
    kept = required_store(store, "A batch" if is_batch else "An aggregation in count windows")
    _check_store(kept)
    key = grouped._key_serde(kept.key, f"store {kept.name!r}")
    aggregate = value_serde(kept, value, fold.value)
    keeps_values = is_batch or windows.step < windows.n
    defaults = grouped.builder.defaults
    rows = CountedValuesSerde(windows, None if keeps_values else aggregate)
    plain = replace(kept, key=None, value=None, headers=False)
    spec = key_value_spec(plain, key, rows, defaults)
    values = None
    if keeps_values:
        of_values = replace(plain, name=f"{kept.name}-values")
        values = key_value_spec(
            of_values,
            KeyAndIdSerde(key, int64),
            grouped._value_serde(None, f"store {of_values.name!r}"),
            defaults,
        )
    timers = replace(
        timer_store(f"{kept.name}-timers", key, in_memory=spec.in_memory),
        is_logged=kept.logged,
        changelog_config=kept.changelog_config,
    )
    node = grouped._node(
        CountWindowNode,
        name,
        "KSTREAM-BATCH-" if is_batch else "KSTREAM-COUNT-WINDOWS-",
        windows=windows,
        closes_after_first=is_batch,
        initializer=fold.initializer or no_aggregate,
        aggregator=fold.aggregator,
        result=None if result is None else result[0],
        store=spec,
        values=values,
        timers=timers,
    )
    parent, sources = grouped._input_of(spec)
    logical = ProcessorLogicalNode(node, value_changing=True)
    grouped.builder.graph.add(parent, logical)
    serde = aggregate if result is None else result[1]
    return StreamFlow(
        grouped.builder, node.name, logical, sources, key, serde, needs_repartition=False
    )


def batched(
    grouped: GroupedFlow[Any, Any],
    n: int,
    within: timedelta,
    close_on_idle: timedelta | None,
    store: str | Materialized | None,
    name: str | None,
) -> StreamFlow[Any, Any]:
    """The stream of the lists of ``n`` values of a key."""
    windows = CountWindows(n, step=n, timeout=within, close_on_idle=close_on_idle)
    values = grouped._value_serde(None, "a batch")
    fold = Fold("KSTREAM-BATCH-", list, _with_one_more, value=list_of(values))
    return counted(grouped, windows, fold, store=store, name=name, is_batch=True)


def _with_one_more(_key: Any, value: Any, found: list[Any]) -> list[Any]:
    found.append(value)
    return found


def _check_store(kept: Materialized) -> None:
    """Refuse options of other kinds of stores; what is left out has its reason in the message."""
    refuse_options(kept, "count windows", _NOT_OF_OPEN_WINDOWS)
    if kept.headers:
        raise declaration_error(
            f"Store {kept.name!r} of count windows has headers=True: results have the headers of"
            " the record that closes the window, and none are stored. Leave it out."
        )
