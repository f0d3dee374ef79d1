"""What an aggregate of ``agg`` is: it has a state, adds values to it, and computes a result.

An aggregate is an object without a state: the state is in the row of a key. The built-in ones take
a field, a function of a record's value, and ignore records in which it is None, as SQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from logstate.contracts.error_text import text_of
from logstate.contracts.setting_rules import shown
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.graph.blame import blame

#: values of records
V_contra = TypeVar("V_contra", contravariant=True)
#: states
S = TypeVar("S")
#: results
R_co = TypeVar("R_co", covariant=True)
#: values of a field
N = TypeVar("N")


class Aggregate(Generic[V_contra, S, R_co]):
    """What ``agg`` computes of the values of a group. Derive from it to write another aggregate.

    >>> from logstate import Aggregate, StreamsBuilder, TopologyTestDriver
    >>> class Product(Aggregate[int, int, int]):
    ...     def initial(self):
    ...         return 1
    ...
    ...     def add(self, state, value):
    ...         return state * value
    ...
    ...     def merge(self, a, b):
    ...         return a * b
    >>> builder = StreamsBuilder()
    >>> table = builder.stream("in", value=int).group_by_key().agg(product=Product(), store="s")
    >>> table.map_values(lambda row: row.product, value=int).to_stream().to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("in", [("ada", 3, 0), ("ada", 9, 1)])
    ...     driver.read("out", value=int)
    [('ada', 3), ('ada', 27)]

    The type arguments are those of the values, of the state and of the result. The types of state
    and result become columns of the store; leave them out for any JSON. ``add`` may change the
    state that it is given, and has to return it.

    Semantics:
        Null value: not passed to ``add``.
        Late records: as for ``count``: the windows decide.
        Order: the records of a group are added in the order in which they arrive.

    Source: Flink's ``AggregateFunction``.
    """

    #: the parts of the state, each a column ``<field>_<part>``; "" is the column of the result
    parts: ClassVar[tuple[str, ...]] = ("state",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "parts" not in vars(cls) and cls.result is Aggregate.result:
            cls.parts = ("",)

    def initial(self) -> S:
        """The state of a group without values."""
        raise NotImplementedError

    def add(self, state: S, value: V_contra) -> S:
        """The state after one more value."""
        raise NotImplementedError

    def merge(self, a: S, b: S) -> S:
        """The state of two sessions that become one; ``a`` is the earlier one."""
        raise NotImplementedError

    def subtract(self, state: S, value: V_contra) -> S:
        """The state without a value that was added: for tables, whose rows change."""
        raise NotImplementedError

    def difference(self, new: Any, old: Any) -> Any:
        """What has to be added to the result ``old`` to get ``new``: for ``emit="delta"``."""
        raise NotImplementedError

    def result(self, state: S) -> R_co:
        """The result of a state; without this method the state is the result."""
        return state  # type: ignore[return-value]

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """The types of the state's parts, and of the result, for values of ``field``'s type.

        Of an aggregate without a field, ``field`` is its annotation, such as ``Longest[Order]``.
        """
        has_annotation = get_origin(field) is type(self)
        _, state, result = type_arguments(field if has_annotation else self, Aggregate)
        return (state,), result

    def for_table(self) -> Aggregate[Any, Any, Any]:
        """The aggregate for tables: it may need more state to subtract."""
        return self

    def take_text(self) -> str:
        """The text of a step in generated functions; "" if ``add`` has to be called."""
        return ""

    @property
    def refusal(self) -> str | None:
        """Why it cannot subtract, and what to use instead; None if it can."""
        if type(self).subtract is not Aggregate.subtract:
            return None
        return "has no method subtract(state, value). Write one that undoes add(state, value)"

    if TYPE_CHECKING:
        # In a class of Aggregates, an aggregate declares a field: the row has its result there.
        @overload
        def __get__(self, instance: None, owner: Any) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> R_co: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...


class FieldAggregate(Aggregate[V_contra, S, R_co], Generic[V_contra, N, S, R_co]):
    """An aggregate of what ``field(value)`` returns. None is ignored."""

    parts: ClassVar[tuple[str, ...]] = ("",)
    #: the initial state
    first: ClassVar[Any] = None
    #: ``take`` and ``result`` as statements over ``{x}``, the parts and ``{result}``: they do
    #: exactly what the methods do, and save the calls; "" is without them
    statements: ClassVar[str] = ""
    #: what the values of the field have to be, for messages; "" if every value is taken
    takes: ClassVar[str] = ""
    field: Callable[[Any], Any]

    def __init__(self, field: Callable[[V_contra], N], returns: type[N] | None = None) -> None:
        callbacks.of_shape(field, f"field of {type(self).__name__}", "(value)", 1)
        self.field = field
        #: the type of the field's values, if it was given
        self.returns: Any = returns

    def initial(self) -> S:
        state: S = self.first
        return state

    def take(self, state: S, value: N) -> S:
        """The state after one more value of the field, which is not None."""
        raise NotImplementedError

    def drop(self, state: S, value: N) -> S:
        """The state without a value of the field, which is not None."""
        raise NotImplementedError

    def take_text(self) -> str:
        """``statements``, unless a derived class has other methods than they have."""
        cls = type(self)
        author = next(one for one in cls.__mro__ if "statements" in vars(one))
        found: Any = author
        is_same = cls.take is found.take and cls.result is found.result and cls.add is found.add
        return cls.statements if is_same else ""

    def not_taken(self, name: str, error: Exception, value: Any) -> Exception:
        """The error for a value of the field that the aggregate ``name`` cannot take.

        An error of a user's function that was called is returned as it came.
        """
        if blame(error).function is not None:
            return error
        kind = TypeError if isinstance(error, TypeError) else ValueError
        found = kind(
            f"{name} takes {self.takes}, and its function {function_site(self.field)} returned"
            f" {shown(value)}: {text_of(error)}. Return such a value, or None, which is ignored"
        )
        found.__cause__ = error
        return found

    def add(self, state: S, value: V_contra) -> S:
        """The state after one more value; unchanged if its field is None."""
        found = self.field(value)
        return state if found is None else self.take(state, found)

    def subtract(self, state: S, value: V_contra) -> S:
        """The state without a value; unchanged if its field is None."""
        found = self.field(value)
        return state if found is None else self.drop(state, found)

    @property
    def refusal(self) -> str | None:
        """Why it cannot subtract, and what to use instead; None if it can."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({function_site(self.field)})"


def float_of(value: Any) -> float:
    """A number as a float. Raises TypeError for text, which ``float`` would convert."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{shown(value)} is text, and a number is needed. Convert it first")
    return float(value)


def type_arguments(found: Any, base: type) -> tuple[Any, ...]:
    """The type arguments of a generic base class; Any for each that is not known.

    ``found`` is a class that derives from it, an object, or an alias such as ``Sum[Order, int]``.

    >>> from logstate import Sum
    >>> type_arguments(Sum[str, int], Aggregate)
    (<class 'str'>, typing.Any, <class 'int'>)
    """
    if not isinstance(found, type) and get_origin(found) is None:
        found = getattr(found, "__orig_class__", type(found))
    cls = get_origin(found) or found
    parameters: tuple[Any, ...] = base.__parameters__  # type: ignore[attr-defined]
    known = dict(zip(getattr(cls, "__parameters__", ()), get_args(found), strict=False))
    if cls is base:
        return tuple(known.get(one, Any) for one in parameters)
    parents = vars(cls).get("__orig_bases__", cls.__bases__) if isinstance(cls, type) else ()
    for parent in parents:
        parent_class = get_origin(parent) or parent
        if isinstance(parent_class, type) and issubclass(parent_class, base):
            return type_arguments(_with_arguments(parent, known), base)
    return (Any,) * len(parameters)


def _with_arguments(type_: Any, known: Mapping[Any, Any]) -> Any:
    """A type with its type variables replaced."""
    parameters = getattr(type_, "__parameters__", ())
    if get_origin(type_) is None or not parameters:
        return type_
    return type_[tuple(known.get(one, Any) for one in parameters)]
