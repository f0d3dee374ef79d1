"""The classes of what ``agg`` computes: each aggregate declares a field of a record."""

from __future__ import annotations

import keyword
import sys
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec

from logstate.contracts.serde import Serde
from logstate.contracts.setting_rules import shown
from logstate.serdes.built_in import type_of
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.selected_types import returned_type, without_none
from logstate.topology.dsl.aggregate_plan import AggregatePlan, Field
from logstate.topology.dsl.aggregates import Aggregate, FieldAggregate, type_arguments

V = TypeVar("V")
#: values that are aggregated
W_contra = TypeVar("W_contra", contravariant=True)
#: records of their aggregates
A_co = TypeVar("A_co", covariant=True)

_TAKEN = ("aggregate",)
_FIELDS = "__aggregates__"


class RecordOf(Protocol[W_contra, A_co]):
    """A class of aggregates of values ``W_contra``, whose objects are ``A_co``."""

    def aggregate(self, values: Iterable[W_contra], /) -> A_co:
        """The record of these values."""


class _Declared(type):
    """The class statement of a subclass of Aggregates makes a struct."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        if not any(isinstance(one, _Declared) for one in bases):
            return super().__new__(cls, name, bases, namespace, **options)
        annotations = _resolved(
            namespace.pop("__annotations__", {}),
            namespace["__module__"],
            dict(sys._getframe(1).f_locals),
        )
        aggregates = {key: one for key, one in namespace.items() if isinstance(one, Aggregate)}
        without = next((key for key in annotations if key not in aggregates), None)
        if without is not None:
            raise declaration_error(
                f"{name}.{without} has no aggregate: the fields of a class of Aggregates are"
                f" aggregates, such as {without} = Count()."
            )
        value = _value_type(namespace.get("__orig_bases__", ()))
        fields = {
            key: Field(one, _field_type(one, annotations.get(key), value))
            for key, one in aggregates.items()
        }
        others = {key: one for key, one in namespace.items() if key not in aggregates}
        return _record_class(name, fields, others)


if TYPE_CHECKING:

    class Aggregates(Generic[V]):
        """As type checkers know it; the other branch is what runs."""

        def __init__(self, **fields: Any) -> None: ...
        @classmethod
        def aggregate(cls, values: Iterable[V], /) -> Self: ...

else:

    class Aggregates(Generic[V], metaclass=_Declared):
        """A class whose fields are aggregates of values ``V``: what ``agg`` computes.

        >>> import msgspec
        >>> from logstate import Aggregates, Count, Mean, StreamsBuilder, Sum, TopologyTestDriver
        >>> class Order(msgspec.Struct):
        ...     cents: int
        >>> class Spend(Aggregates[Order]):
        ...     total: Sum[Order, int] = Sum(lambda order: order.cents)
        ...     orders = Count()
        ...     mean: Mean[Order] = Mean(lambda order: order.cents)
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=Order).group_by_key()
        >>> orders.agg(Spend, store="spend").to_stream().to("spend")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", Order(250), 0), ("ada", Order(125), 1)])
        ...     driver.read("spend", value=Spend)
        [('ada', Spend(total=250, orders=1, mean=250.0)),
         ('ada', Spend(total=375, orders=2, mean=187.5))]

        Type checkers know the fields of its objects: ``total`` is an ``int`` and ``mean`` a
        ``float``. An annotation such as ``Sum[Order, int]`` tells them the argument of a lambda;
        a function that is annotated itself needs none.

        At run time the class is a frozen ``msgspec.Struct`` of the results, to be made and compared
        in tests and given as ``value=``. ``Spend.aggregate(values)`` computes the record of some
        values without a topology.

        Raises:
            TopologyError: a field is annotated and has no aggregate, or cannot have its name.

        Source: as ``KGroupedStream.agg``.
        """


def _value_type(bases: Iterable[Any]) -> Any:
    for one in bases:
        if typing.get_origin(one) is Aggregates:
            value = typing.get_args(one)[0]
            return Any if isinstance(value, TypeVar) else value
    return Any


def _resolved(annotations: Mapping[str, Any], module: str, names: dict[str, Any]) -> dict[str, Any]:
    """The annotations as types; Any if one names what only type checkers import."""
    found = {}
    for name, one in annotations.items():
        holder = type("Holder", (), {"__annotations__": {name: one}, "__module__": module})
        try:
            found[name] = typing.get_type_hints(holder, localns=names)[name]
        except (NameError, TypeError, AttributeError):
            found[name] = Any
    return found


def _record_class(
    name: str, fields: Mapping[str, Field], others: Mapping[str, Any]
) -> type[msgspec.Struct]:
    if not fields:
        raise declaration_error(
            f"{name} has no aggregates. Give at least one, such as orders=Count()."
        )
    for key, field in fields.items():
        is_name = key.isidentifier() and not keyword.iskeyword(key)
        if not is_name or key.startswith("_") or key in _TAKEN:
            raise declaration_error(
                f"An aggregate cannot have the name {key!r}: it is not a name of Python, begins"
                " with an underscore, or is a method of the record. Choose another name."
            )
        _check_methods(key, type(field.aggregate))
    results = [(key, one.aggregate.types(one.type)[1]) for key, one in fields.items()]
    namespace = {"__qualname__": name, **others, _FIELDS: dict(fields)}
    namespace["aggregate"] = classmethod(_aggregate)
    module = namespace.pop("__module__", None)
    record: type[msgspec.Struct] = msgspec.defstruct(
        name, results, frozen=True, module=module, namespace=namespace
    )
    return record


def _check_methods(name: str, cls: type[Aggregate[Any, Any, Any]]) -> None:
    for method, is_own in (
        ("initial()", cls.initial is not Aggregate.initial),
        ("add(state, value)", cls.add is not Aggregate.add),
    ):
        if not is_own:
            raise declaration_error(
                f"{name}={cls.__name__}(...) has no method {method}, which every aggregate needs."
                " Write it, or derive from a built-in aggregate, such as Sum."
            )


def _aggregate(cls: type[msgspec.Struct], values: Iterable[Any], /) -> Any:
    """The record of these values, added in their order."""
    plan = _plan_of(cls, of_table=False)
    row = plan.initializer()
    for value in values:
        row = plan.add(row, value)
    return plan.result(row)


@lru_cache(maxsize=1_000)
def _plan_of(record: type[msgspec.Struct], *, of_table: bool) -> AggregatePlan:
    """One plan for all uses of a class, so that rows of its stores have one class, too."""
    return AggregatePlan(record, getattr(record, _FIELDS), of_table=of_table)


def planned(
    record: Any,
    aggregates: Mapping[str, Any],
    value: Serde[Any] | None,
    *,
    of_table: bool = False,
) -> AggregatePlan:
    """The plan of a class of Aggregates, or of aggregates by name over values of a serde."""
    if record is None:
        record = _named_record(aggregates, value)
    elif aggregates:
        raise declaration_error(
            f"agg was given {shown(record)} and aggregates by name ({', '.join(aggregates)}). Give"
            " one of them: the class has its own."
        )
    fields = getattr(record, _FIELDS, None)
    if not isinstance(record, type) or not isinstance(fields, dict):
        raise declaration_error(
            f"agg takes a class of Aggregates, or aggregates by name; found {shown(record)}. Derive"
            " a class from Aggregates, or give names: agg(total=Sum(...), store=...)."
        )
    plan = _plan_of(record, of_table=of_table)
    if of_table:
        plan.refuse_what_cannot_subtract()
    return plan


class GroupAggregates(NamedTuple):
    """The aggregates of one group of a cogroup, by name, and the serde of its values."""

    aggregates: Mapping[str, Any]
    value: Serde[Any] | None


def planned_groups(groups: Iterable[GroupAggregates]) -> AggregatePlan:
    """The plan of one record of the aggregates of several groups."""
    fields: dict[str, Field] = {}
    for aggregates, value in groups:
        found = _fields_of(aggregates, value)
        twice = next((name for name in found if name in fields), None)
        if twice is not None:
            raise declaration_error(
                f"Two groups of a cogroup have an aggregate {twice!r}. A field belongs to one"
                " group: rename one of them."
            )
        fields |= found
    record = _record_class("Aggregates", fields, {"__module__": __name__})
    return AggregatePlan(record, fields)


def _named_record(aggregates: Mapping[str, Any], value: Serde[Any] | None) -> type[Any]:
    fields = _fields_of(aggregates, value)
    return _record_class("Aggregates", fields, {"__module__": __name__})


def _fields_of(aggregates: Mapping[str, Any], value: Serde[Any] | None) -> dict[str, Field]:
    for name, one in aggregates.items():
        if not isinstance(one, Aggregate):
            raise declaration_error(
                f"{name}= of agg must be an aggregate, such as Sum(lambda order: order.cents) or"
                f" Count(); found {shown(one)}."
            )
    type_ = None if value is None else type_of(value)
    return {name: Field(one, _field_type(one, None, type_)) for name, one in aggregates.items()}


def _field_type(aggregate: Aggregate[Any, Any, Any], annotation: Any, value: Any) -> Any:
    """The type of the field's values, without None; Any if it is not known.

    ``annotation`` is that of the aggregate, such as ``Sum[Order, int]``; ``value`` the type of the
    values.
    """
    if not isinstance(aggregate, FieldAggregate):
        return Any if annotation is None else annotation
    if aggregate.returns is not None:
        return without_none(aggregate.returns)
    for declared in (annotation, aggregate):
        type_ = type_arguments(declared, FieldAggregate)[1]
        if type_ is not Any:
            return without_none(type_)
    return returned_type(aggregate.field, value)
