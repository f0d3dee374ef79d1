"""How ``agg`` computes a record: the class of the store's rows, and functions over rows.

A row is an object of the record's class or, where a state is more than its result, of a derived
class with the parts of the states as further fields. One function is generated for all aggregates
of a record: a value costs one call of it, one per field, and up to two per aggregate whose step has
no text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from textwrap import indent
from typing import Any, NamedTuple

import msgspec

from logstate.contracts.errors import SerdeError
from logstate.contracts.generated_code import make_function
from logstate.contracts.serde import Serde
from logstate.serdes.immutability import is_immutable
from logstate.serdes.json_serde import JsonSerde
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.aggregates import Aggregate, FieldAggregate
from logstate.topology.dsl.aggregations import Aggregator, Fold
from logstate.topology.dsl.numeric_aggregates import Count

#: of the rows of a table's groups without a Count(): how many rows the group has
_ROW_COUNT = "row_count"
_FUNCTION = """\
def bind({names}):
    def {name}({arguments}):
{body}
    return {name}
"""


#: a step that names its aggregate and the value where it fails; entering it costs no call
_GUARDED = """\
try:
{text}
except Exception as error:
    raise not_taken{number}(error, {x})"""


class Field(NamedTuple):
    """One aggregate of a record, and the type of the values of its field."""

    aggregate: Aggregate[Any, Any, Any]
    type: Any

    @property
    def counts_records(self) -> bool:
        """Whether it is a ``Count()``, which counts records without a value, too."""
        return isinstance(self.aggregate, Count) and self.aggregate.counts_records


class AggregatePlan:
    """The rows of one record class, of a stream or ``of_table``, and what is done with them."""

    def __init__(
        self,
        record: type[msgspec.Struct],
        declared: Mapping[str, Field],
        *,
        of_table: bool = False,
    ) -> None:
        self.record, self.fields, self._of_table = record, dict(declared), of_table
        self._kinds = {name: type(one.aggregate).__name__ for name, one in declared.items()}
        #: the field with the number of a table's rows in the group
        self._counter = ""
        if of_table:
            counts = (name for name, one in declared.items() if one.counts_records)
            self._counter = next(counts, _ROW_COUNT)
            self.fields = {
                name: Field(one.aggregate.for_table(), one.type) for name, one in declared.items()
            }
        self.row = self._row_class()

    def _shown(self, name: str) -> str:
        """An aggregate as it was declared, for messages."""
        return f"{name}={self._kinds[name]}(...)"

    def _columns(self, name: str) -> list[str]:
        """The fields of a row that have the state of an aggregate."""
        parts = self.fields[name].aggregate.parts
        return [f"{name}_{part}" if part else name for part in parts]

    def _row_class(self) -> type[msgspec.Struct]:
        more: dict[str, Any] = {}
        for name, (aggregate, type_) in self.fields.items():
            columns = zip(self._columns(name), aggregate.types(type_)[0], strict=True)
            more |= {column: part for column, part in columns if column != name}
        if self._counter == _ROW_COUNT:
            more[_ROW_COUNT] = int
        twice = next((column for column in more if column in self.fields), None)
        if twice is not None:
            raise declaration_error(
                f"The rows of {self.record.__name__} need a field {twice!r} for a state, and an"
                " aggregate has that name. Rename the aggregate."
            )
        if not more:
            return self.record
        row: type[msgspec.Struct] = msgspec.defstruct(
            f"{self.record.__name__}Row",
            list(more.items()),
            bases=(self.record,),
            frozen=True,
            module=self.record.__module__,
        )
        return row

    def fold(self, prefix: str) -> Fold:
        """The fold of an aggregation; its operator's generated name begins with ``prefix``.

        A stream's group without values has no row, so no operator below sees an empty record as
        the old value of a first one.
        """
        initializer = self.initializer if self._of_table else no_row
        fold = Fold(prefix, initializer, _with_key(self.add), self.merger(), self.row_serde())
        fold = fold._replace(no_merger=self._no_merger())
        refusal = self._no_difference()
        if refusal is not None:
            return fold._replace(no_difference=refusal)
        return fold._replace(difference=self.difference)

    def _no_merger(self) -> str:
        """Why rows of two sessions cannot be merged; "" if they can."""
        for name, (aggregate, _) in self.fields.items():
            if type(aggregate).merge is Aggregate.merge:
                return (
                    f"{self._shown(name)} has no method merge(a, b). Write one that returns the"
                    " state of both; a is that of the earlier session"
                )
        return ""

    def _no_difference(self) -> str | None:
        """Why rows have no difference; None if they have."""
        for name, (aggregate, _) in self.fields.items():
            if type(aggregate).difference is Aggregate.difference:
                return (
                    f"{self._shown(name)} has results that do not add up. Use Count() and Sum(...),"
                    " such as the two of a mean, divide after adding, or write an Aggregate with a"
                    " method difference(new, old)"
                )
        return None

    def group_aggregator(self, names: Collection[str]) -> Aggregator:
        """The aggregator of one group of a cogroup, which has these aggregates."""
        return _with_key(self._fold("add", "take", names))

    def merger(self) -> Aggregator:
        """Merges the rows of sessions."""
        merge = self.merge
        return lambda _key, a, b: b if a is None else merge(a, b)

    def row_serde(self) -> Serde[Any]:
        """The serde of the store's rows."""
        return _json_of(self.row)

    def subtractor(self) -> Aggregator:
        """Takes a row out of a table's group."""
        return _with_key(self.subtract)

    def mapper(self) -> Callable[[Any, Any], Any]:
        """Makes the record of a row."""
        result = self.result
        return lambda _key, row: result(row)

    def result_serde(self) -> Serde[Any]:
        """The serde of the results."""
        return _json_of(self.record)

    def refuse_what_cannot_subtract(self) -> None:
        """Raise TopologyError for an aggregate that a table cannot have."""
        for name, (aggregate, _) in self.fields.items():
            if aggregate.refusal is not None:
                refusal = aggregate.refusal.format(name=name)
                raise declaration_error(
                    f"{self._shown(name)} cannot aggregate the rows of a table: a row that changes"
                    f" is subtracted first, and {self._kinds[name]} {refusal}."
                )

    @cached_property
    def initializer(self) -> Callable[[], Any]:
        """Makes the row of a group without values."""
        row, fields = self.row, self.fields
        columns = {name: self._columns(name) for name in fields}

        def initial() -> Any:
            found: dict[str, Any] = {_ROW_COUNT: 0}
            for name, (aggregate, _) in fields.items():
                state = aggregate.initial()
                found[name] = aggregate.result(state)
                parts = state if len(columns[name]) > 1 else (state,)
                found |= dict(zip(columns[name], parts, strict=True))
            return row(*(found[name] for name in row.__struct_fields__))

        if not is_immutable(row):
            return initial
        shared = initial()
        return lambda: shared

    @cached_property
    def add(self) -> Callable[[Any, Any], Any]:
        """``add(row, value)`` returns the row with one more value; None is a row without any."""
        return self._fold("add", "take", self.fields)

    @cached_property
    def subtract(self) -> Callable[[Any, Any], Any]:
        """``subtract(row, value)`` returns the row without a value; None if no others are left."""
        return self._fold("subtract", "drop", self.fields)

    def _fold(self, method: str, of_field: str, own: Collection[str]) -> Callable[[Any, Any], Any]:
        """Generate a function for the aggregates ``own``; the others keep their states."""
        names: dict[str, Any] = {"Row": self.row}
        if method == "add":
            names["initial"] = self.initializer
            lines = ["if row is None:", "    row = initial()"]
            lines += ["if value is None:", f"    return {self._null_row(own)}"]
        else:
            lines = [f"if row.{self._counter} <= 1:", "    return None"]
        selected: dict[int, str] = {}
        steps: dict[str, list[_Step]] = {}
        results, parts = [], []
        for number, (name, field) in enumerate(self.fields.items()):
            aggregate, columns = field.aggregate, self._columns(name)
            if name not in own:
                results.append(f"row.{name}")
                parts += [f"row.{column}" for column in columns if column != name]
                continue
            x, fold = "value", getattr(aggregate, method)
            if isinstance(aggregate, FieldAggregate):
                fold = getattr(aggregate, of_field)
                if not field.counts_records:
                    x = selected.setdefault(id(aggregate.field), f"x{number}")
                    if x == f"x{number}":
                        names[f"field{number}"] = aggregate.field
                        lines.append(f"{x} = field{number}(value)")
            text = aggregate.take_text() if method == "add" else ""
            if text:
                step = _taking(number, name, columns, aggregate, text, x)
            else:
                step = _calling(number, name, columns, x)
                names |= {f"fold{number}": fold, f"result_of{number}": aggregate.result}
            if isinstance(aggregate, FieldAggregate) and aggregate.takes:
                names[f"not_taken{number}"] = partial(aggregate.not_taken, self._shown(name))
                guarded = _GUARDED.format(number=number, x=x, text=indent(step.text, "    "))
                step = step._replace(text=guarded)
            lines += step.before
            steps.setdefault(x, []).append(step)
            results.append(step.result)
            parts += step.parts
        for x, found in steps.items():
            lines += _steps_of(x, found)
        if self._counter == _ROW_COUNT:
            parts.append(f"row.{_ROW_COUNT} {'+' if method == 'add' else '-'} 1")
        lines.append(f"return Row({', '.join([*results, *parts])})")
        made: Callable[[Any, Any], Any] = _make_bind(method, "row, value", lines, names)
        return made

    def _null_row(self, own: Collection[str]) -> str:
        """The text of the row with one more record that has no value."""
        counts = [name for name in own if self.fields[name].counts_records]
        if not counts:
            return "row"
        columns = self.row.__struct_fields__
        values = (f"row.{one} + 1" if one in counts else f"row.{one}" for one in columns)
        return f"Row({', '.join(values)})"

    @cached_property
    def merge(self) -> Callable[[Any, Any], Any]:
        """``merge(a, b)`` returns the row of two sessions, the earlier one first."""
        names: dict[str, Any] = {"Row": self.row}
        lines, results, parts = list[str](), list[str](), list[str]()
        for number, (name, (aggregate, _)) in enumerate(self.fields.items()):
            columns, state = self._columns(name), f"state{number}"
            names[f"merge{number}"] = aggregate.merge
            both = f"{_read('a', columns)}, {_read('b', columns)}"
            lines.append(f"{state} = merge{number}({both})")
            result = state if columns == [name] else f"{state}[0]"
            if name not in columns:
                names[f"result_of{number}"] = aggregate.result
                result = f"result_of{number}({state})"
            results.append(result)
            parts += _parts(name, columns, state)
        lines.append(f"return Row({', '.join([*results, *parts])})")
        made: Callable[[Any, Any], Any] = _make_bind("merge", "a, b", lines, names)
        return made

    @cached_property
    def difference(self) -> Callable[[Any, Any], Any]:
        """``difference(new, old)`` returns a row of the differences of two rows' results."""
        differences = [(name, one.aggregate.difference) for name, one in self.fields.items()]

        def difference(new: Any, old: Any) -> Any:
            return msgspec.structs.replace(
                new,
                **{name: of(getattr(new, name), getattr(old, name)) for name, of in differences},
            )

        return difference

    @cached_property
    def result(self) -> Callable[[Any], Any]:
        """``result(row)`` returns the record: the row without the parts of states."""
        values = ", ".join(f"row.{name}" for name in self.fields)
        names = {"Record": self.record}
        made: Callable[[Any], Any] = _make_bind(
            "result", "row", [f"return Record({values})"], names
        )
        return made


def no_row() -> None:
    """The initializer of a stream's aggregation."""


class _Step(NamedTuple):
    """The texts of an aggregate: its state before, the step, its result, and its further parts."""

    before: list[str]
    text: str
    #: what takes the place of the step for a field that is None
    otherwise: str
    result: str
    parts: list[str]


def _steps_of(x: str, steps: list[_Step]) -> list[str]:
    """The steps of all aggregates of one field, whose value is ``x``, as statements."""
    taken = "\n".join(one.text for one in steps)
    if x == "value":
        return [taken]
    lines = [f"if {x} is not None:", indent(taken, "    ")]
    otherwise = "\n".join(one.otherwise for one in steps if one.otherwise)
    return [*lines, "else:", indent(otherwise, "    ")] if otherwise else lines


def _taking(
    number: int,
    name: str,
    columns: list[str],
    aggregate: Aggregate[Any, Any, Any],
    text: str,
    x: str,
) -> _Step:
    """The step of an aggregate whose ``take`` has a text: a variable for each part, and no call."""
    result = f"result{number}"
    variables = {part: f"part{number}_{part}" if part else result for part in aggregate.parts}
    read = zip(variables.values(), columns, strict=True)
    before = [f"{variable} = row.{column}" for variable, column in read]
    otherwise = "" if name in columns else f"{result} = row.{name}"
    text = text.format(x=x, **{"result": result, **variables})
    return _Step(before, text, otherwise, result, [v for v in variables.values() if v != result])


def _calling(number: int, name: str, columns: list[str], x: str) -> _Step:
    """The step of an aggregate whose functions are called."""
    state = f"state{number}"
    before = [f"{state} = {_read('row', columns)}"]
    text = f"{state} = fold{number}({state}, {x})"
    result, otherwise = state if columns == [name] else f"{state}[0]", ""
    if name not in columns:
        result = f"result{number}"
        otherwise = f"{result} = row.{name}"
        text += f"\n{result} = result_of{number}({state})"
    return _Step(before, text, otherwise, result, _parts(name, columns, state))


def _with_key(function: Callable[[Any, Any], Any]) -> Aggregator:
    """A function of row and value as an aggregator."""

    def with_key(_key: Any, value: Any, row: Any) -> Any:
        return function(row, value)

    with_key.by_value = function  # type: ignore[attr-defined]
    return with_key


def _read(row: str, columns: list[str]) -> str:
    """The text of a state: a tuple if it has several parts."""
    values = ", ".join(f"{row}.{column}" for column in columns)
    return f"({values})" if len(columns) > 1 else values


def _parts(name: str, columns: list[str], state: str) -> list[str]:
    """The texts of the parts of a state that are not the result."""
    if len(columns) == 1:
        return [] if columns == [name] else [state]
    return [f"{state}[{place}]" for place, column in enumerate(columns) if column != name]


def _make_bind(name: str, arguments: str, lines: list[str], names: Mapping[str, Any]) -> Any:
    body = indent("\n".join(lines), " " * 8)
    source = _FUNCTION.format(name=name, names=", ".join(names), arguments=arguments, body=body)
    return make_function("bind", source, f"{name} of agg")(**names)


def _json_of(record: type[msgspec.Struct]) -> Serde[Any]:
    try:
        return JsonSerde(record)
    except SerdeError as error:
        raise declaration_error(
            f"The results of {record.__name__} cannot become rows of a store. {error} The type of a"
            " field that JSON has no form for can be converted in its function."
        ) from error
