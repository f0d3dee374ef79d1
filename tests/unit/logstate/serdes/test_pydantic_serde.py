"""Pydantic models and classes of attrs as values, keys and rows."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    computed_field,
)

from logstate import DeserializationError, SerdeError, StreamsBuilder, UpgradeError, serdes
from logstate.contracts.compatibility import worst
from logstate.serdes.json_compatibility import json_changes
from logstate.testing import TopologyTestDriver

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    price: decimal.Decimal = decimal.Decimal(1)


class Order(BaseModel):
    id: uuid.UUID
    at: datetime.datetime
    items: list[Item]
    colour: Colour | None = None
    notes: dict[str, float] = {}

    @computed_field
    def count(self) -> int:
        return len(self.items)


ORDERS = st.builds(
    Order,
    id=st.uuids(),
    at=st.datetimes(timezones=st.just(datetime.UTC)),
    items=st.lists(
        st.builds(Item, name=st.text(max_size=5), price=st.decimals(0, 1_000, places=2)),
        max_size=3,
    ),
    colour=st.sampled_from([None, *Colour]),
    notes=st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False)),
)


def round_trip(value: Any, *, is_key: bool = False) -> Any:
    serde = serdes.serde_of(type(value), what="a value")
    return serde.deserializer("t", is_key)(serde.serializer("t", is_key)(value))


@given(ORDERS)
def test_what_is_written_is_read(order: Order) -> None:
    assert round_trip(order) == order
    assert round_trip(order, is_key=True) == order


def test_equal_keys_are_equal_bytes() -> None:
    write = serdes.serde_of(Order, what="a key").serializer("t", True)
    fields: dict[str, Any] = {"id": uuid.UUID(int=1), "at": NOON, "items": []}
    one = Order(**fields, notes={"a": 1, "b": 2})
    other = Order(**fields, notes={"b": 2, "a": 1})
    assert write(one) == write(other)


def test_a_key_is_written_as_it_will_be_once_it_was_read() -> None:
    serde = serdes.serde_of(Order, what="a key")
    order = Order(id=uuid.UUID(int=1), at=NOON, items=[], notes={"a": 1.0})
    data = serde.serializer("t", True)(order)
    order.notes["a"] = 1  # nothing validates it
    assert serde.serializer("t", True)(order) == data


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_express_is_refused(value: float) -> None:
    order = Order(id=uuid.UUID(int=1), at=NOON, items=[], notes={"a": value})
    with pytest.raises(SerdeError, match="NaN or an infinity"):
        round_trip(order)


def test_another_object_than_the_model_is_refused() -> None:
    write = serdes.serde_of(Item, what="a value").serializer("t", False)
    with pytest.raises(SerdeError, match="Found dict where"):
        write({"name": "a"})  # type: ignore[arg-type]


class Renamed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    written: int = Field(alias="theName")
    old: int = Field(1, validation_alias=AliasChoices("old", "older"))


class Lost(BaseModel):
    value: int = Field(serialization_alias="other")


def test_names_are_those_that_the_model_reads() -> None:
    write = serdes.serde_of(Renamed, what="a value").serializer("t", False)
    assert write(Renamed(written=3)) == b'{"theName":3,"old":1}'
    assert round_trip(Renamed(written=3, old=4)) == Renamed(written=3, old=4)


def test_a_model_that_would_not_read_what_it_writes_is_refused() -> None:
    with pytest.raises(SerdeError, match="Lost writes its field 'value' as 'other'"):
        serdes.serde_of(Lost, what="a value")


def test_the_description_has_what_is_written() -> None:
    schema = serdes.serde_of(Order, what="a value").describe()["schema"]
    assert list(schema["properties"]) == ["id", "at", "items", "colour", "notes"]
    assert "count" not in schema["required"]


# --- with state -----------------------------------------------------------------------------------


class Spent(BaseModel):
    total: int


class SpentSince(BaseModel):
    total: int
    since: str = "ever"


class SpentWhere(BaseModel):
    total: int
    where: str


def latest(model: type[BaseModel]) -> Any:
    builder = StreamsBuilder()
    builder.table("in", key=str, value=model, store="spent")
    return builder.build()


def driver(model: type[BaseModel], folder: Path) -> TopologyTestDriver:
    return TopologyTestDriver(latest(model), application_id="shop", state_dir=folder)


def test_rows_that_are_there_get_the_default_of_a_field_that_was_added(tmp_path: Path) -> None:
    with driver(Spent, tmp_path) as first:
        first.pipe("in", "ada", Spent(total=3))
    with driver(SpentSince, tmp_path) as second:
        assert second.store("spent").get("ada").value == SpentSince(total=3, since="ever")
        second.pipe("in", "ada", SpentSince(total=4, since="noon"))
    with driver(Spent, tmp_path) as third:  # and a field that is gone is skipped
        assert third.store("spent").get("ada").value == Spent(total=4)


def test_a_field_without_a_default_is_refused_where_there_are_rows(tmp_path: Path) -> None:
    with driver(Spent, tmp_path) as first:
        first.pipe("in", "ada", Spent(total=3))
    with pytest.raises(UpgradeError, match=r"value\.where"):
        driver(SpentWhere, tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(Spent, SpentSince, "compatible"), (Spent, SpentWhere, "refused"), (Order, Order, "same")],
)
def test_models_are_compared_by_their_fields(
    before: type[BaseModel], after: type[BaseModel], verdict: str
) -> None:
    one, other = (serdes.serde_of(m, what="v").describe()["schema"] for m in (before, after))
    assert str(worst(json_changes("store", "value", one, other))) == verdict


def test_bytes_that_the_model_does_not_take_are_an_error_with_their_place() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=Spent).to("out")
    with TopologyTestDriver(builder.build()) as driver_:
        with pytest.raises(DeserializationError, match="'in', partition 0, offset 0") as caught:
            driver_.pipe_raw("in", b"k", b'{"total":"many"}', 1)
        assert "total" in str(caught.value)


# --- attrs ----------------------------------------------------------------------------------------


@attrs.frozen
class Click:
    page: str
    at: int = 0


def test_a_class_of_attrs_is_read_and_written_and_not_taken_for_a_dict() -> None:
    assert round_trip(Click("home", 3)) == Click("home", 3)
    with pytest.raises(SerdeError, match="Found dict"):
        serdes.serde_of(Click, what="v").serializer("t", False)({"page": "a"})  # type: ignore[arg-type]


def test_a_model_that_would_not_be_read_again_is_not_written(
    recwarn: pytest.WarningsRecorder,
) -> None:
    class Counted(BaseModel):
        n: Annotated[int, Field(ge=0)]
        note: str = ""

    serialize = serdes.serde_of(Counted, what="v").serializer("t", False)
    changed = Counted(n=1)
    changed.n = 2.5  # type: ignore[assignment]
    negative = Counted.model_construct(n=-1)
    secret = Counted.model_construct(n=1, note=4111)
    for value, field in ((changed, "n: "), (negative, "n: "), (secret, "note: ")):
        with pytest.raises(
            SerdeError, match=f"could not be read again with Counted: {field}"
        ) as it:
            serialize(value)
        assert "2.5" not in str(it.value)
        assert "4111" not in str(it.value)
    assert serialize(Counted(n=2)) == b'{"n":2,"note":""}'
    assert not recwarn.list


class Lax(BaseModel):
    n: int = 0
    is_new: bool = False
    at: datetime.datetime = NOON
    inner: Item = Item(name="a")
    cache: int = Field(0, exclude=True)
    _seen: int = 0


class More(BaseModel):
    model_config = ConfigDict(extra="allow")


def changed(value: BaseModel, **fields: Any) -> BaseModel:
    """As functions change them: nothing validates it."""
    for name, field in fields.items():
        setattr(value, name, field)
    return value


@pytest.mark.parametrize("is_key", [False, True])
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (changed(Lax(), n="5"), r"Lax: at `\$\.n` there is str, and int would be read"),
        (changed(Lax(), n=True), r"at `\$\.n` there is bool, and int"),
        (changed(Lax(), is_new=1), r"at `\$\.is_new` there is int, and bool"),
        (changed(Lax(), at="2026-01-31T12:00:00Z"), r"at `\$\.at` there is str, and datetime"),
        (changed(Lax(), inner={"name": "a"}), r"at `\$\.inner` there is dict, and Item"),
        (More.model_validate({"at": NOON}), r"at `\$\.at` there is datetime, and str"),
    ],
)
def test_a_model_that_would_be_read_as_another_one_is_not_written(
    value: BaseModel, complaint: str, is_key: bool
) -> None:
    with pytest.raises(SerdeError, match=complaint):
        round_trip(value, is_key=is_key)


def test_what_a_model_keeps_to_itself_is_not_looked_at() -> None:
    value = Lax(n=3, cache=7)
    value._seen = 5
    assert round_trip(value).n == 3
    assert round_trip(More.model_validate({"n": 3, "names": ["a"]})).names == ["a"]


def test_a_model_without_a_json_schema_is_json_of_any_shape() -> None:
    class Packed(BaseModel):
        parts: Annotated[
            frozenset[str],
            PlainValidator(lambda given: frozenset(given.split()) if type(given) is str else given),
            PlainSerializer(lambda parts: " ".join(sorted(parts))),
        ]

    serde = serdes.serde_of(Packed, what="a test")
    assert serde.describe() == {"format": "json", "schema": None}
    builder = StreamsBuilder()
    builder.table("packed", value=Packed, store="rows")
    packed = Packed(parts=frozenset({"b", "a"}))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("packed", "1", packed)
        assert driver.store("rows").get("1").value == packed
    with pytest.raises(SerdeError, match="has no JSON schema to register"):
        serdes.json_schema_of(Packed, registry="mock://packed")
