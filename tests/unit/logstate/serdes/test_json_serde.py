import dataclasses
import enum
import math
import typing
from collections import OrderedDict
from datetime import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import ProcessingError, StreamsBuilder, serdes
from logstate.contracts.errors import SerdeError
from logstate.contracts.generated_code import FILE_PREFIX
from logstate.contracts.serde import Serde
from logstate.serdes import json, json_of
from logstate.testing import TopologyTestDriver


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


class Mutable(msgspec.Struct):
    n: int = 0
    mean: int | None = None


class Positive(msgspec.Struct):
    n: typing.Annotated[int, msgspec.Meta(ge=1)]


class Even(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("odd")


class Outer(msgspec.Struct, frozen=True):
    inner: Mutable


class Colour(enum.Enum):
    RED = "red"


def even_made_odd() -> Even:
    value = Even(2)
    value.n = 3
    return value


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


def containers_of(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner) | st.dictionaries(st.text(), inner)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    containers_of,
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


class Place(msgspec.Struct, frozen=True):
    lat: float
    lon: float | None = None


class Spot(Place, frozen=True):
    name: str = ""


@pytest.mark.parametrize(
    ("type_", "key", "read"),
    [
        (float, 52, 52.0),
        (float | None, 52, 52.0),
        (Place, Place(52, 4), Place(52.0, 4.0)),
        (Place, Place(52.5, 4), Place(52.5, 4.0)),
        (Place, Spot(52.0, 4.0, "here"), Place(52.0, 4.0)),
        (Point, Point(1, -2), Point(1.0, -2.0)),
        (tuple[str, float], ("a", 1), ("a", 1.0)),
        (list[Place], [Place(1)], [Place(1.0)]),
        (dict[str, float], {"b": 1, "a": 2}, {"a": 2.0, "b": 1.0}),
        (int | float, 1, 1),
    ],
)
def test_a_key_is_written_as_it_will_be_once_it_was_read(
    type_: typing.Any, key: typing.Any, read: typing.Any
) -> None:
    """Else one key would be two: in stores, and in the partitions of a topic."""
    serde = json_of(type_)
    data = encode(serde, key, is_key=True)
    assert decode(serde, data) == read
    assert encode(serde, read, is_key=True) == data


def test_places_in_whole_degrees_are_counted_with_those_that_are_read_so() -> None:
    builder = StreamsBuilder()
    places = builder.stream("in", value=list)
    by_place = places.group_by(lambda place: Place(*place), key=Place, name="by-place")
    by_place.count(store="counts").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for place in ([52, 4], [52.0, 4.0], [52, 4.0]):
            driver.pipe("in", "a", place)
        assert len({record.key for record in driver.internal["app-by-place-repartition"]}) == 1
        assert driver.read("out", key=Place, value=int)[-1] == (Place(52.0, 4.0), 3)


def test_a_row_is_found_by_a_key_that_reads_as_its_own() -> None:
    builder = StreamsBuilder()
    names = builder.table("names", key=Place, value=str, store="names")
    routes = builder.table("routes", value=list, store="routes")
    named = routes.join(
        names, lambda _, name: name, foreign_key=lambda at: Place(*at), name="named", value=str
    )
    named.to_stream().to("out")
    moves = builder.stream("moves", value=list).select_key(lambda at: Place(*at), key=Place)
    moves.join(names, lambda _, name: name, value=str, name="moved").to("met")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("names", b'{"lat":52.0,"lon":4.0}', b"Delft", 0)
        driver.pipe("routes", "ada", [52, 4])
        driver.pipe("moves", "bob", [52, 4])
        driver.pipe_raw("names", b'{"lat":52.0,"lon":4.0}', b"The Hague", 0)
        assert driver.read("out", value=str) == [("ada", "Delft"), ("ada", "The Hague")]
        assert driver.read("met", key=Place, value=str) == [(Place(52.0, 4.0), "Delft")]
        assert {record.key for record in driver.internal["app-moved-repartition"]} == {
            b'{"lat":52.0,"lon":4.0}'
        }


@pytest.mark.parametrize("cls", [Click, Mutable, Point])
def test_a_class_of_scalars_is_checked_by_generated_code_and_not_decoded(cls: type) -> None:
    serialize = json_of(cls).serializer("topic", is_key=False)

    assert serialize.__code__.co_filename.startswith(FILE_PREFIX)  # type: ignore[attr-defined]


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
def test_a_struct_of_scalars_is_refused_exactly_where_it_could_not_be_read_again(
    fields: tuple[typing.Any, ...],
) -> None:
    serialize = json_of(Measured).serializer("t", False)
    value = Measured(*fields)
    data = msgspec.json.encode(value)
    if any(type(field) is float and not math.isfinite(field) for field in fields):
        with pytest.raises(SerdeError, match="NaN or an infinity"):
            serialize(value)
        return
    unreadable = ""
    try:
        msgspec.json.decode(data, type=Measured)
    except msgspec.ValidationError as error:
        unreadable = str(error)
    if not unreadable:
        assert serialize(value) == data
        return
    with pytest.raises(SerdeError, match="could not be read again") as caught:
        serialize(value)
    assert unreadable in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "value", "complaint"),
    [
        (Mutable, Mutable(1, 2.5), r"Expected `int \| null`, got `float` - at `\$\.mean`"),  # type: ignore[arg-type]
        (Mutable, Mutable("1"), r"got `str` - at `\$\.n`"),  # type: ignore[arg-type]
        (Mutable, Mutable(True), r"got `bool` - at `\$\.n`"),
        (Click, Click(None), r"got `null` - at `\$\.page`"),  # type: ignore[arg-type]
        (Click, Click("a", 2.5), r"got `float` - at `\$\.at`"),  # type: ignore[arg-type]
        (Point, Point("1", 2.0), r"got `str` - at `\$\.x`"),  # type: ignore[arg-type]
        (Outer, Outer({"m": 1, "n": "x"}), r"at `\$\.inner\.n`"),  # type: ignore[arg-type]
        (Outer, Outer(None), r"at `\$\.inner`"),  # type: ignore[arg-type]
        (Positive, Positive(0), r"at `\$\.n`"),
        (Even, even_made_odd(), "odd"),
        (Tree, Tree(1.0, [Tree("2")]), r"at `\$\.children\[0\]\.weight`"),  # type: ignore[arg-type]
        (Order, {"item": "tea"}, "missing required field `count`"),
        (list[int], ["a"], r"got `str` - at `\$\[0\]`"),
        (list[int], {"a": 1}, "Expected `array`, got `object`"),
        (dict[str, int], {"a": "b"}, "got `str`"),
        (dict[int, str], {"a": "b"}, "at `key` in"),
        (dict[str, list[float]], {"a": [1.0, None]}, "got `null`"),
        (tuple[str, int], ("a",), "length 2"),
        (int | None, "x", r"Expected `int \| null`, got `str`"),
        (Click | None, Click(5), r"at `\$\.page`"),  # type: ignore[arg-type]
        (Colour, "blue", "enum value"),
        (datetime, "yesterday", "RFC3339"),
        (typing.Literal["a", "b"], "c", "enum value"),
    ],
)
@pytest.mark.parametrize("is_key", [False, True])
def test_what_could_not_be_read_again_is_not_written(
    type_: typing.Any, value: object, complaint: str, is_key: bool
) -> None:
    with pytest.raises(SerdeError, match=complaint) as caught:
        encode(json_of(type_), value, is_key=is_key)

    assert "correct the function that made it" in str(caught.value)


def test_an_integer_in_the_place_of_a_float_is_written_and_read_as_a_float() -> None:
    serde = json_of(Point)

    assert decode(serde, encode(serde, Point(1, -2))) == Point(1.0, -2.0)


@pytest.mark.parametrize(
    ("declared", "fits", "others"),
    [
        (dict, [{}, {"a": 1}, OrderedDict(a=1), msgspec.Raw(b' {"a": 1}')], [[1], "a", 1, True]),
        (list, [[], [1], [[]], msgspec.Raw(b" [1]")], [{"a": 1}, "[", 1.5]),
    ],
)
def test_a_bare_container_is_checked_when_it_is_written(
    declared: type, fits: list[object], others: list[object]
) -> None:
    serde = serdes.serde_of(declared, what="a test")
    for is_key in (True, False):
        serialize = serde.serializer("t", is_key)
        assert all(type(json.deserializer("t", False)(serialize(one))) is declared for one in fits)
        for other in others:
            with pytest.raises(SerdeError, match=f"the declared type is {declared.__name__}"):
                serialize(other)
    assert serde.describe() == json.describe()
    assert serde.deserializer("t", False)(b"null") is None


def test_a_row_of_another_container_than_the_declared_one_is_refused() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.aggregate(dict, lambda row, value: [value], value=dict, store="rows")  # type: ignore[arg-type,return-value]
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match=r"test_json_serde.py:\d+.*Found list"):
            driver.pipe("in", "k", "v")
        assert driver.store("rows").get("k") is None
