"""Building the n greatest values of each group: the stores, and the operator behind the group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypedDict

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import list_of, ordered, type_of
from logstate.serdes.scalars import int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_count, check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.selected_types import returned_type
from logstate.topology.dsl.aggregations import required_store
from logstate.topology.dsl.grouped_flow import GroupedFlow, GroupedTableFlow
from logstate.topology.dsl.materialized import Materialized, key_value_spec, refuse_options
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.aggregates.rank_serde import RankSerde
from logstate.topology.operators.aggregates.top_n import TopNNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde

_PREFIX = "TOP-N-"
_NOT_OF_RANKINGS = {
    "history": "its rows are lists that change with every value of their group",
    "capacity": "it would remove groups whose values are still ranked",
    "ttl": "it would remove groups whose values are still ranked",
    "indexes": "its values are lists",
}


class TopNOptions(TypedDict, total=False):
    """Options of a top-n: the type of the scores, its store, its name, when it sends."""

    score: Any
    store: str | Materialized | None
    name: str | None
    emit: Literal["update", "commit"]


def top_n(
    grouped: GroupedFlow[Any, Any] | GroupedTableFlow[Any, Any],
    n: int,
    by: Callable[[Any], Any],
    given: Mapping[str, Any],
) -> TableFlow[Any, Any]:
    """The table of the n greatest values of each group."""
    options = dict(given)
    check_options(options, TopNOptions, "top_n")
    return _top_n(grouped, n, by, **options)


def _top_n(
    grouped: GroupedFlow[Any, Any] | GroupedTableFlow[Any, Any],
    n: int,
    by: Callable[[Any], Any],
    *,
    score: Any = None,
    store: str | Materialized | None = None,
    name: str | None = None,
    emit: Any = "update",
) -> TableFlow[Any, Any]:
    if n is None:
        raise declaration_error(
            "n of top_n() is None. Give the number of values per group, for example 10."
        )
    check_count(n, "n of top_n()")
    callbacks.of_shape(by, "by of top_n()", "(value)", 1)
    if emit not in ("update", "commit"):
        raise declaration_error(
            f'emit of top_n() must be "update" or "commit", found {emit!r}: every change of a list,'
            " or the last one per group and commit. For final results of windows use"
            ' windowed_by(...).agg(best=TopN(...), emit="close").'
        )
    kept = required_store(store, "top_n()")
    _check_store(kept)
    use = f"store {kept.name!r}"
    keys, values = grouped._key_serde(kept.key, use), grouped._value_serde(None, use)
    scores = _score_serde(score, by, values)
    defaults = grouped.builder.defaults
    plain = replace(kept, key=None)
    rows = replace(plain, name=f"{kept.name}-rows", headers=False)
    stores: dict[str, Any] = {
        "store": key_value_spec(plain, keys, list_of(values), defaults),
        "rows": key_value_spec(
            rows, KeyAndIdSerde(keys, RankSerde(scores, values)), int64, defaults
        ),
    }
    graph = grouped.builder.graph
    if isinstance(grouped, GroupedTableFlow):
        parent, sources = grouped._behind_topic(kept.name, name)
    else:
        parent, sources = grouped._input_of(stores["store"])
    node = TopNNode(
        graph.names.named(name, _PREFIX),
        n=n,
        by=by,
        is_of_table=isinstance(grouped, GroupedTableFlow),
        emit=emit,
        **stores,
    )
    logical = ProcessorLogicalNode(node)
    graph.add(parent, logical)
    serde: Serde[Any] = node.store.value
    return TableFlow(grouped.builder, node.name, logical, sources, keys, serde, node)


def _score_serde(score: Any, by: Callable[[Any], Any], values: Serde[Any]) -> Serde[Any]:
    """The serde of what ``by`` returns, whose bytes have the order of the scores."""
    type_ = returned_type(by, type_of(values)) if score is None else score
    if type_ is not Any:
        try:
            return ordered(type_)
        except SerdeError as error:
            raise declaration_error(f"The scores of top_n(): {error}") from error
    raise declaration_error(
        "The type of what by= of top_n() returns is not known, and rows are stored in the order of"
        " their scores. Give score=, such as score=int, score=float or score=tuple[int, str]."
    )


def _check_store(kept: Materialized) -> None:
    refuse_options(kept, "top_n()", _NOT_OF_RANKINGS)
    if kept.value is not None:
        raise declaration_error(
            f"Store {kept.name!r} of top_n() has value=, but its values are lists of the values of"
            " the group. Leave it out; map_values(..., value=) changes what is sent."
        )
