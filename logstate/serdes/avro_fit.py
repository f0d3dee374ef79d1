"""Check that a value has the types of its Avro schema, before the writer converts it.

The fast writer takes everything that can be converted to the type: 2.9 becomes the long 2, a naive
datetime the time in the machine's zone, a text in place of an array its letters. It writes some
values that cannot be read again unchanged, such as a text that is not a UUID. So every value is
compared with the schema, field by field: some 40 ns per field, where writing takes 250.

>>> check = fit_check({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
>>> check({"n": 3})
>>> check({"n": 2.9})  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
...
logstate.contracts.errors.SerdeError: The value does not fit the Avro schema R: R.n is float,
expected long. Change the value (int(...), round(...)), or the schema.

A whole number in place of a float is accepted if the float holds it exactly, as in Java. A value
that is read as an object must be given as one: a ``datetime``, a ``UUID``, a list, not the number,
the text or the tuple that the writer would also take. Rounding by the unit of the type is allowed:
a ``float`` to 32 bits, ``-millis`` to milliseconds. Values that the writer itself refuses are left
to it, and so is the choice of a union's branch if the fields identify it: a value that has the
fields of two branches is ambiguous, and is refused unless it comes with a name.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

from logstate.contracts.error_text import type_name
from logstate.contracts.errors import SerdeError
from logstate.serdes.avro_schema import AvroWalk, Schema, schema_name

#: raises _Misfit for a value that would be changed
_Check = Callable[[Any], None]
_INT32 = range(-(2**31), 2**31)
_LARGEST_FLOAT = 3.4028235677973366e38
_ANOTHER = object()  # a type that no value has


class _Misfit(Exception):
    """Why a value does not fit, and the path to it, innermost first."""

    def __init__(self, why: str, remedy: str = "") -> None:
        self.why = why
        self.remedy = remedy or "Change the value, or the schema"
        self.way: list[str] = []


class _TypeCheck(NamedTuple):
    """Values of exactly ``sure`` fit, None may; all others are passed to ``check``.

    The containing part checks for None: this saves a frame for each level of a tree.
    """

    sure: Any
    check: _Check
    is_optional: bool = False


def _accept_all(_value: Any) -> None:
    """Accept every value: the writer itself checks it."""


_UNKNOWN = _TypeCheck(_ANOTHER, _accept_all)


def fit_check(schema: Schema) -> Callable[[Any], None]:
    """Return a function that raises SerdeError for a value that would be read as another one.

    ``schema`` is as the writer parsed it; the value is one that the writer accepted.
    """
    _, check, is_optional = _Fit().of(schema)
    name = schema_name(schema)

    def check_value(value: Any) -> None:
        try:
            if value is not None or not is_optional:
                check(value)
        except _Misfit as misfit:
            where = f"{name}{''.join(reversed(misfit.way))}" if misfit.way else "the value"
            raise SerdeError(
                f"The value does not fit the Avro schema {name}: {where} {misfit.why}."
                f" {misfit.remedy}."
            ) from None
        except RecursionError:
            raise SerdeError(
                f"The value does not fit the Avro schema {name}: it is nested too deeply to be"
                " read again. Move nested values into separate records."
            ) from None

    return check_value


class _Fit(AvroWalk[_TypeCheck]):
    def __init__(self) -> None:
        super().__init__()
        #: full name -> its fields; those of a record that is being walked are added later
        self._fields: dict[str, list[tuple[str, Any, _Check, bool]]] = {}

    def leaf(self, schema: Mapping[str, Any]) -> _TypeCheck:
        # Named types are defined before they are used; types of other files are left to the writer.
        return _SCALARS.get(schema["type"], _UNKNOWN)

    def record(self, name: str, fields: Callable[[], list[tuple[str, _TypeCheck]]]) -> _TypeCheck:
        found = self._fields[name] = list[tuple[str, Any, _Check, bool]]()
        part = self.named[name] = _TypeCheck(_ANOTHER, _of_record(found))
        found += [(field, *one) for field, one in fields()]
        return part

    def array(self, item: _TypeCheck) -> _TypeCheck:
        return _TypeCheck(_ANOTHER, _of_items(*item))

    def map(self, value: _TypeCheck) -> _TypeCheck:
        return _TypeCheck(_ANOTHER, _of_entries(*value))

    def union(self, branches: list[Schema], parts: list[_TypeCheck]) -> _TypeCheck:
        some = [part for branch, part in zip(branches, parts, strict=True) if branch != "null"]
        part = _of_union(branches, some)
        alike = _RecordBranches()
        for branch, one in zip(branches, parts, strict=True):
            name = branch.get("name", branch["type"]) if isinstance(branch, Mapping) else branch
            if name == "map" or name in self._fields:
                alike.add(name, self._fields.get(name), one.check)
        return part if alike.is_sure else part._replace(check=alike.unless_alike(part.check))

    def logical(self, schema: Mapping[str, Any], as_kind: Callable[[], _TypeCheck]) -> _TypeCheck:
        kind = schema["type"]
        known = _LOGICAL.get(f"{kind}-{schema['logicalType']}")
        if known is not None:
            return known
        if schema["logicalType"] == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = schema["precision"], schema.get("scale", 0)
            return _TypeCheck(_ANOTHER, _decimal_check(precision, scale, is_fixed=kind == "fixed"))
        # A logical type that others registered is left to the writer.
        return _UNKNOWN if kind in ("enum", "fixed", "bytes", "string") else as_kind()


def _of_record(fields: list[tuple[str, Any, _Check, bool]]) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _found(value, "a record")
        get = value.get
        for name, sure, check_field, is_optional in fields:
            item = get(name, sure)  # a missing field has a default
            if type(item) is not sure and item is not sure:
                if item is None and is_optional:
                    continue
                try:
                    check_field(item)
                except _Misfit as misfit:
                    misfit.way.append(f".{name}")
                    raise

    return check


def _of_items(sure: Any, check_item: _Check, is_optional: bool) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise _found(value, "an array", "Give a list")
        for item in value:
            if type(item) is not sure and (item is not None or not is_optional):
                try:
                    check_item(item)
                except _Misfit as misfit:
                    misfit.way.append("[]")
                    raise

    return check


def _of_entries(sure: Any, check_item: _Check, is_optional: bool) -> _Check:
    check_items = _of_items(sure, check_item, is_optional)

    def check(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _found(value, "a map", "Give a dict")
        check_items(list(value.values()))

    return check


def _of_union(branches: list[Schema], parts: list[_TypeCheck]) -> _TypeCheck:
    is_optional = len(parts) < len(branches)
    if len(parts) == 1:
        return parts[0]._replace(is_optional=is_optional)
    kinds = {one.get("logicalType") for one in branches if isinstance(one, Mapping)}
    has_instant = not kinds.isdisjoint(("timestamp-millis", "timestamp-micros"))

    def check(value: Any) -> None:
        if type(value) is tuple and len(value) == 2:
            value = value[1]  # with the name of its branch
        if has_instant:
            _refuse_naive(value)
        first: _Misfit | None = None
        for part in parts:
            try:
                part.check(value)
            except _Misfit as misfit:
                first = first or misfit
            else:
                return
        if first is not None:
            raise first

    return _TypeCheck(_ANOTHER, check, is_optional)


class _RecordBranches:
    """The branches of a union that are dicts: records and maps. Some may have the same fields."""

    def __init__(self) -> None:
        self._branches: list[tuple[str, list[tuple[str, Any, _Check, bool]] | None, _Check]] = []

    def add(
        self, name: str, fields: list[tuple[str, Any, _Check, bool]] | None, check: _Check
    ) -> None:
        """Add a branch; a map has any fields."""
        self._branches.append((name, fields, check))

    @property
    def is_sure(self) -> bool:
        """Whether a dict can belong to only one branch."""
        return len(self._branches) < 2

    def unless_alike(self, check: _Check) -> _Check:
        """Return a check of values that have the fields of one branch at most, or a name."""

        def check_value(value: Any) -> None:
            check(value)
            if isinstance(value, Mapping):
                names = self._names_for(value)
                if len(names) > 1:
                    raise _Misfit(
                        f"has the fields of {' and of '.join(names)}, which are both in its union;"
                        f" it would always be written as {names[0]}",
                        f"Name the branch: ({names[-1]!r}, value). avro(..., branch_names=True)"
                        " reads it with its name",
                    )

        return check_value

    def _names_for(self, value: Mapping[str, Any]) -> list[str]:
        names = [
            (name, check)
            for name, fields, check in self._branches
            if fields is None
            or (len(fields) == len(value) and all(field in value for field, *_ in fields))
        ]
        return [name for name, check in names if _accepts(check, value)] if len(names) > 1 else []


def _accepts(check: _Check, value: Any) -> bool:
    try:
        check(value)
    except _Misfit:
        return False
    return True


# ---------------------------------------------------------------- scalars


def _found(value: Any, expected: str, remedy: str = "") -> _Misfit:
    return _Misfit(f"is {type_name(value)}, expected {expected}", remedy)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_int(value: Any) -> None:
    if not _is_whole(value):
        raise _found(value, "int", "Change the value (int(...), round(...)), or the schema")
    if value not in _INT32:
        why = "does not fit its Avro type: an int has 32 bits and the value needs more"
        raise _Misfit(why, 'Declare the field as "long"')


def _check_long(value: Any) -> None:
    if not _is_whole(value):
        raise _found(value, "long", "Change the value (int(...), round(...)), or the schema")


def _check_double(value: Any) -> None:
    if isinstance(value, Rational):
        is_real = _is_whole(value)
    else:
        is_real = isinstance(value, Real)
    if not is_real:
        raise _found(value, "double", "Give a float, or declare the field as a decimal")
    if isinstance(value, Integral) and not _is_exact(value):
        why = "is a whole number that a float does not have exactly"
        raise _Misfit(why, 'Declare the field as "long", or round it: float(...)')


def _is_exact(value: Any) -> bool:
    try:
        return bool(float(value) == value)
    except OverflowError:
        return False


def _check_float(value: Any) -> None:
    _check_double(value)
    if math.isfinite(value) and abs(value) >= _LARGEST_FLOAT:
        why = "does not fit its Avro type: a float has 32 bits and the value is larger than any"
        raise _Misfit(why, 'Declare the field as "double"')


def _of_class(cls: Any, expected: str) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, cls):
            raise _found(value, expected)

    return check


_SCALARS = {
    "null": _TypeCheck(type(None), _of_class(type(None), "null")),
    "boolean": _TypeCheck(bool, _of_class(bool, "boolean")),
    "int": _TypeCheck(_ANOTHER, _check_int),
    "long": _TypeCheck(int, _check_long),
    "float": _TypeCheck(_ANOTHER, _check_float),
    "double": _TypeCheck(float, _check_double),
    "bytes": _TypeCheck(bytes, _of_class((bytes, bytearray, memoryview), "bytes")),
    "string": _TypeCheck(str, _of_class(str, "string")),
}
_SCALARS |= {"enum": _SCALARS["string"], "fixed": _SCALARS["bytes"]}

# ---------------------------------------------------------------- logical types


def _refuse_naive(value: Any) -> None:
    if isinstance(value, datetime.datetime) and value.utcoffset() is None:
        raise _Misfit(
            "is a datetime without a time zone, which would be read as a time in the zone of the"
            " machine",
            "Say which zone it is in (datetime.now(UTC), value.replace(tzinfo=...)), or declare"
            ' "local-timestamp-millis" or "-micros", which have none',
        )


def _check_instant(value: Any) -> None:
    _refuse_naive(value)
    if not isinstance(value, datetime.datetime):
        remedy = "Give datetime.fromtimestamp(ms / 1000, UTC)" if _is_whole(value) else ""
        raise _found(value, "an aware datetime, which would be read", remedy)


def _check_local_time(value: Any) -> None:
    if not isinstance(value, datetime.datetime):
        raise _found(value, "a datetime without a time zone, which would be read")
    if value.tzinfo is not None:
        why = "is a datetime with a time zone, which its Avro type does not keep"
        raise _Misfit(why, "Leave it out (replace(tzinfo=None)), or declare a timestamp")


def _check_time(value: Any) -> None:
    if not isinstance(value, datetime.time):
        raise _found(value, "a time, which would be read")
    if value.tzinfo is not None:
        why = "is a time with a time zone, which its Avro type does not keep"
        raise _Misfit(why, "Leave it out (replace(tzinfo=None))")


def _check_date(value: Any) -> None:
    if isinstance(value, datetime.datetime):
        raise _found(value, "a date, which has no time of day", "Give value.date()")
    if not isinstance(value, datetime.date):
        remedy = "Give date.fromisoformat(...)" if isinstance(value, str) else ""
        raise _found(value, "a date, which would be read", remedy)


def _check_uuid(value: Any) -> None:
    if not isinstance(value, uuid.UUID):
        raise _found(value, "a UUID, which would be read", "Give uuid.UUID(...)")


def _decimal_check(precision: int, scale: int, *, is_fixed: bool) -> _Check:
    """Return a check of decimals.

    The writer counts the digits of the given number, a reader those of the value in the type's
    scale: 123.4 has four digits, and is 12340 where the scale is two. The writer turns -0.00, to
    which -0.001 is rounded, into -0.02 if the type is fixed.
    """

    def check(value: Any) -> None:
        if not isinstance(value, decimal.Decimal):
            raise _found(value, "a Decimal, which would be read")
        sign, digits, exponent = value.as_tuple()
        if is_fixed and sign and not value:
            raise _Misfit("is a Decimal of minus zero, which no Avro has", "Add 0 to it: value + 0")
        if not isinstance(exponent, int):
            raise _Misfit("is a Decimal that is not a number", "A decimal has no NaN or infinity")
        if -exponent > scale:
            why = f"is a Decimal with {-exponent} digits behind the point, and its type has {scale}"
            raise _Misfit(why, "Round it (quantize), or declare a larger scale")
        if value and len(digits) + exponent > precision - scale:
            before = precision - scale
            why = f"is a Decimal that needs more than the {before} digits before the point of its"
            raise _Misfit(f"{why} type", "Declare a larger precision")

    return check


_LOGICAL = {
    "long-timestamp-millis": _TypeCheck(_ANOTHER, _check_instant),
    "long-timestamp-micros": _TypeCheck(_ANOTHER, _check_instant),
    "long-local-timestamp-millis": _TypeCheck(_ANOTHER, _check_local_time),
    "long-local-timestamp-micros": _TypeCheck(_ANOTHER, _check_local_time),
    "int-date": _TypeCheck(_ANOTHER, _check_date),
    "int-time-millis": _TypeCheck(_ANOTHER, _check_time),
    "long-time-micros": _TypeCheck(_ANOTHER, _check_time),
    "string-uuid": _TypeCheck(_ANOTHER, _check_uuid),
}
