import dataclasses
import math
import typing
from datetime import date, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Serde
from logstate.serdes import json, json_of
from logstate.serdes.compatibility import serde_changes


class Click(msgspec.Struct, frozen=True):
    page: str
    at: int = 0


class Reading(msgspec.Struct):
    celsius: float | None
    tags: list[str] = []


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float


class Order(typing.TypedDict):
    item: str
    count: int


class Tree(msgspec.Struct):
    weight: float
    children: "list[Tree]" = []


def encode(serde: Serde[typing.Any], value: object, *, is_key: bool = False) -> bytes:
    return serde.serializer("topic", is_key)(value)


def decode(serde: Serde[typing.Any], data: bytes) -> object:
    return serde.deserializer("topic", is_key=False)(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_everything_json_has_comes_back(value: object) -> None:
    assert decode(json, encode(json, value)) == value


@given(st.text(), st.integers(-(2**63), 2**63 - 1))
def test_a_struct_comes_back_as_itself(page: str, at: int) -> None:
    serde = json_of(Click)

    assert decode(serde, encode(serde, Click(page, at))) == Click(page, at)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Point, Point(1.5, -2.0)),
        (Order, {"item": "tea", "count": 2}),
        (dict[str, int], {"a": 1}),
        (list[Click], [Click("home"), Click("cart", 3)]),
        (tuple[str, int], ("a", 1)),
        (Click | None, Click("home")),
        (Tree, Tree(1.0, [Tree(0.5)])),
    ],
)
def test_typed_values_come_back_in_their_type(type_: typing.Any, value: object) -> None:
    serde = json_of(type_)
    back = decode(serde, encode(serde, value))

    assert back == value
    assert type(back) is type(value)


def test_fields_that_the_type_does_not_know_are_ignored() -> None:
    assert decode(json_of(Click), b'{"page":"home","campaign":"spring"}') == Click("home")


@pytest.mark.parametrize("data", [b'{"at":1}', b'{"page":5}', b"[]", b"{", b"", b"\xff"])
def test_data_that_does_not_fit_the_type_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(json_of(Click), data)


def test_the_wrong_field_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.page"):
        decode(json_of(Click), b'{"page":5}')


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("serde", "wrap"),
    [
        (json, lambda number: number),
        (json, lambda number: {"a": [1, {"b": number}]}),
        (json_of(Reading), Reading),
        (json_of(Point), lambda number: Point(0.0, number)),
        (json_of(Tree), lambda number: Tree(1.0, [Tree(number)])),
        (json_of(dict[str, float]), lambda number: {"a": number}),
        (json_of(tuple[float, ...]), lambda number: (1.0, number)),
    ],
)
def test_nan_and_infinity_are_refused_instead_of_becoming_null(
    serde: Serde[object], wrap: typing.Callable[[float], object], number: float
) -> None:
    with pytest.raises(SerdeError, match="NaN or an infinity"):
        encode(serde, wrap(number))


def test_null_and_the_text_null_are_no_nan() -> None:
    assert encode(json_of(Reading), Reading(None, ["null"])) == b'{"celsius":null,"tags":["null"]}'
    assert encode(json, {"a": None, "b": 1.5}) == b'{"a":null,"b":1.5}'


@pytest.mark.parametrize("wrong", [{"page": "home"}, "home", Reading(1.0), None])
def test_an_object_of_another_class_is_refused(wrong: object) -> None:
    with pytest.raises(SerdeError, match=r"Return Click\(\.\.\.\)"):
        encode(json_of(Click), wrong)


def test_a_subclass_of_the_declared_class_is_accepted() -> None:
    class TimedClick(Click, frozen=True):
        seconds: int = 0

    data = encode(json_of(Click), TimedClick("home", 1, 2))

    assert decode(json_of(Click), data) == Click("home", 1)


def test_equal_keys_are_equal_bytes_and_values_keep_their_order() -> None:
    one, other = {"b": 1, "a": 2}, {"a": 2, "b": 1}

    assert encode(json, one, is_key=True) == encode(json, other, is_key=True)
    assert encode(json, one) == b'{"b":1,"a":2}'


def test_a_struct_without_floats_is_encoded_by_one_check_and_c_code() -> None:
    serialize = json_of(dict[str, int]).serializer("topic", is_key=False)

    assert type(serialize).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize("type_", [complex, type, lambda: None, "Missing"])
def test_types_without_json_are_refused_when_declared(type_: typing.Any) -> None:
    with pytest.raises(SerdeError, match="cannot be read from JSON"):
        json_of(type_)


def test_the_schema_is_described() -> None:
    description = json_of(Click).describe()

    assert description["format"] == "json"
    properties = description["schema"]["$defs"]["Click"]["properties"]
    assert properties["page"] == {"type": "string"}
    assert msgspec.json.encode(description)
    assert json.describe() == {"format": "json", "schema": None}


class Measured(msgspec.Struct):
    name: str
    ratio: float
    total: float
    note: str | None = None
    is_new: bool = False


_ANY_FIELD = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.just("null"))


@given(st.tuples(*[_ANY_FIELD] * 5))
def test_a_struct_of_scalars_is_refused_exactly_where_a_field_is_nan_or_infinite(
    fields: tuple[typing.Any, ...],
) -> None:
    serialize = json_of(Measured).serializer("t", False)
    value = Measured(*fields)
    is_bad = any(type(field) is float and not math.isfinite(field) for field in fields)
    if is_bad:
        with pytest.raises(SerdeError, match="NaN or an infinity"):
            serialize(value)
    else:
        assert serialize(value) == msgspec.json.encode(value)


def test_a_subclass_of_a_struct_of_scalars_is_written_with_its_own_fields() -> None:
    class More(Measured):
        extra: float = 0.5

    serialize = json_of(Measured).serializer("t", False)
    assert b'"extra":0.5' in serialize(More("a", 1.0, 2.0))
    with pytest.raises(SerdeError, match="NaN or an infinity"):
        serialize(More("a", 1.0, 2.0, extra=math.nan))


class Visit(msgspec.Struct):
    at: datetime
    until: datetime | None
    earlier: "list[Visit]"
    by_day: dict[str, tuple[datetime, ...]]
    day: date


def test_points_in_time_are_described_as_such_wherever_they_stand() -> None:
    schema = json_of(Visit).describe()["schema"]
    found = schema["$defs"]["Visit"]["properties"]

    instant = {"type": "string", "format": "date-time"}
    assert found["at"] == instant
    assert found["until"]["anyOf"][0] == instant
    assert found["by_day"]["additionalProperties"]["items"] == instant
    assert found["day"] == {"type": "string", "format": "date"}


def test_a_description_from_before_points_in_time_were_noted_is_no_other_type() -> None:
    now = json_of(list[datetime]).describe()
    before = {"format": "json", "schema": {"type": "array", "items": {"type": "string"}}}

    assert serde_changes("store 's'", "key", before, now) == []
    assert serde_changes("store 's'", "value", before, now) == []
