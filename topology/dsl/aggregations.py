"""What aggregations have in common: the store they need, serdes, and their simplest callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.errors import TopologyError
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.dsl.materialized import Materialized, materialized


def count_one(_key: Any, _value: Any, aggregate: int) -> int:
    """The aggregator of count()."""
    return aggregate + 1


def _count_one_more(aggregate: int, _value: Any) -> int:
    return aggregate + 1


count_one.by_value = _count_one_more  # type: ignore[attr-defined]  # see logstate.topology.declaring.callbacks


def as_aggregator(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A reducer as an aggregator that starts with nothing."""

    def reduce(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else reducer(aggregate, value)

    return reduce


def required_store(store: str | Materialized | None, what: str) -> Materialized:
    """The store's options; an aggregation always has a store, and its name is in its changelog."""
    options = materialized(store)
    if options is None:
        raise TopologyError(
            f"{what} needs a name for its store: the store has a changelog topic and a directory,"
            " and a generated name would change when an operator is added before it. Give"
            ' store="some-name".',
            declared_at=declaration_site(),
        )
    check_name(options.name, "a store")
    return options


def value_serde(options: Materialized, value: Any) -> Serde[Any]:
    """The aggregate's serde: from the store's options, else from the call."""
    use = f"the value of store {options.name!r}"
    return required_serde(value if options.value is None else options.value, None, use, "value=")
