"""Declarations of secondary indexes: the functions, the types of what they return, their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from logstate.contracts.errors import SerdeError
from logstate.contracts.indexes import IndexSpec
from logstate.contracts.serde import Serde
from logstate.contracts.setting_rules import shown
from logstate.serdes.built_in import type_of
from logstate.serdes.ordered_serde import OrderedSerde, ordered_of
from logstate.topology.declaring.callbacks import of_shape
from logstate.topology.declaring.declaration_site import declaration_error, function_site
from logstate.topology.declaring.late_binding import note_variables
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.selected_types import returned_type, without_none


@dataclass(frozen=True)
class Index:
    """Made by :func:`index`."""

    function: Callable[[Any], Any]
    returns: Any


#: ``indexes=`` of a store: the functions by the names of the indexes
Indexes: TypeAlias = Mapping[str, Callable[[Any], Any] | Index]

_ORDERED: Final = (
    "str, int, float, bool, bytes, datetime, date, UUID, or a tuple or a NamedTuple of these"
)


def index(function: Callable[[Any], Any], returns: Any) -> Index:
    """An index of a store, with the type of the indexed values.

    >>> from logstate import Materialized, StreamsBuilder, TopologyTestDriver, index
    >>> people = Materialized("people", indexes={"age": index(lambda one: one["age"], int)})
    >>> builder = StreamsBuilder()
    >>> _ = builder.table("people", value=dict, store=people)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("people", "ada", {"age": 36})
    ...     driver.pipe("people", "bob", {"age": 9})
    ...     [key for key, _ in driver.store("people").by_range("age", 18)]
    ['ada']

    Semantics: ``indexes={"city": function}`` is enough where the type is known: the function has a
    return annotation, or it only selects a part of a value whose type is declared, as
    ``lambda order: order.city`` does.

    Args:
        function: returns the indexed value of a value of the store. It must depend on nothing else.
            None: the row is not in the index.
        returns: the type of the indexed values: ``str``, ``int``, ``float``, ``bool``, ``bytes``,
            ``datetime``, ``date``, ``UUID``, or a tuple or a ``NamedTuple`` of these.

    Returns:
        The declaration, for ``indexes=`` of ``Materialized`` and of stores for processors.

    Raises:
        TopologyError: where the store is declared: the values of the type have no order.

    Source: RocksDB has no secondary indexes; PostgreSQL's ``CREATE INDEX`` on an expression, and
    Redpanda Connect's and Faust's users, who keep a second table by hand.
    """
    return Index(function, returns)


def index_specs(store: str, indexes: Indexes | None, value: Serde[Any]) -> tuple[IndexSpec, ...]:
    """Return the indexes of a store whose values have this serde."""
    if indexes is None:
        return ()
    if not isinstance(indexes, Mapping):
        raise declaration_error(
            f"indexes= of store {store!r} must be a mapping of names to functions, such as"
            f' {{"city": lambda order: order.city}}; found {shown(indexes)}.'
        )
    return tuple(_spec(store, name, one, value) for name, one in indexes.items())


def refuse_indexes(store: str, indexes: object, kind: str, remedy: str) -> None:
    """Raise TopologyError if a store has indexes that it cannot have."""
    if indexes is not None:
        raise declaration_error(
            f"Store {store!r} has indexes, but {kind}: only tables and key-value stores have"
            f" indexes. {remedy}"
        )


def _spec(store: str, name: str, declared: Any, value: Serde[Any]) -> IndexSpec:
    check_name(name, "an index")
    what = f"index {name!r} of store {store!r}"
    function = declared.function if isinstance(declared, Index) else declared
    of_shape(function, what, "(value)", 1)
    note_variables(function, what)
    if isinstance(declared, Index):
        found = without_none(declared.returns)
    else:
        found = returned_type(function, type_of(value))
    return IndexSpec(name, function, _serde(what, function, found), function_site(function))


def _serde(what: str, function: Callable[[Any], Any], found: Any) -> OrderedSerde[Any]:
    if isinstance(found, OrderedSerde):
        return found
    site = function_site(function)
    if found is Any:
        raise declaration_error(
            f"The type of {what} is not known: {site} has no return annotation, and does not only"
            " select a part of a value whose type is declared. Give index(function, str), with the"
            f" type of the indexed values: {_ORDERED}."
        )
    try:
        return ordered_of([found])
    except SerdeError as error:
        raise declaration_error(
            f"The values of {what} have no order: {site} returns {_name(found)}. Index a part of"
            f" the value that is one of {_ORDERED}."
        ) from error


def _name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)
