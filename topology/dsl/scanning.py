"""Building a scan: a repartition where keys may have changed, the store of the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

from logstate.contracts.serde_types import SerdeLike
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_options
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde, required_serde
from logstate.topology.dsl.flow import K, R, V
from logstate.topology.dsl.materialized import (
    Materialized,
    agreed_value,
    key_value_spec,
    materialized,
    refuse_options,
)
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.aggregates.scan import ScanNode

#: the states
T = TypeVar("T")
#: returns the next state, None to delete it, and a result
Step: TypeAlias = Callable[[T, V], tuple[T | None, R]] | Callable[[K, V, T], tuple[T | None, R]]

_NOT_OF_STATES = {
    "history": "its rows are states, of which each record needs the newest",
    "capacity": "it would remove states of keys that have further records",
}


class ScanOptions(TypedDict, Generic[T, R], total=False):
    """Options of a scan: the serde of its states, its store, serdes, name."""

    state: SerdeLike[T]
    store: str | Materialized | None
    key: Any
    value: SerdeLike[R]
    name: str | None


def scanned(
    stream: StreamFlow[Any, Any],
    initializer: Callable[[], Any],
    step: Callable[..., Any],
    given: Mapping[str, Any],
) -> StreamFlow[Any, Any]:
    """The results of a function that carries a state per key."""
    options = dict(given)
    check_options(options, ScanOptions, "scan")
    return _scanned(stream, initializer, step, **options)


def _scanned(
    stream: StreamFlow[Any, Any],
    initializer: Callable[[], Any],
    step: Callable[..., Any],
    *,
    state: Any = None,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    name: str | None = None,
) -> StreamFlow[Any, Any]:
    kept = materialized(store)
    if kept is None:
        why = "the store of its states has a changelog topic"
        kept = Materialized(required_name(name, "scan()", why, 'store="..." or name="..."'))
    refuse_options(kept, "scan()", _NOT_OF_STATES)
    use = f"store {kept.name!r} of scan()"
    keys = stream._key_serde(key if kept.key is None else kept.key, use)
    said = agreed_value(kept, optional_serde(state, None, f"the states of {use}"))
    states = required_serde(said, None, f"the states of {use}", "state=")
    spec = key_value_spec(kept, keys, states, stream.builder.defaults)
    begin, function = callbacks.initializer(initializer), callbacks.aggregator(step, "step")
    stream = stream._behind_its_key(name or kept.name, use, key, None)
    node = stream._node(
        ScanNode, name, "KSTREAM-SCAN-", store=spec, initializer=begin, step=function
    )
    return stream._below(node, value_changing=True, key=key, value=value)
