"""Descriptions of serdes become columns, and the Arrow type is the one Spark expects."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.tables import StoreTable, arrow_schema, record_batch
from logstate.changelog.reading.types import ColumnType, column_type, json_type
from logstate.changelog.spark.schema import spark_schema, spark_type
from logstate.contracts.errors import SerdeError
from logstate.contracts.records import TopicPartition
from logstate.serdes import avro, json_of, json_schema_of, protobuf
from tests.unit.logstate.serdes.formats import FORMATS, Format
from tests.unit.logstate.serdes.protobuf_messages import Click, Other, total

IDENTIFIER = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


class Item(msgspec.Struct):
    sku: str
    pieces: int = 1


class Order(msgspec.Struct):
    total: int
    rate: float
    items: list[Item]
    counts: dict[str, int]
    either: int | str
    note: str | None = None
    state: Literal["open", "paid"] = "open"
    parent: Order | None = None
    pair: tuple[int, str] = (0, "")


def block_with(key: bytes, value: bytes) -> Block:
    """One record."""
    number = pa.array([0])
    data = (pa.array([each], pa.binary()) for each in (key, value))
    return Block(TopicPartition("log", 0), *data, number, number)


def filled(column: ColumnType, *data: bytes | None) -> list[Any]:
    """The column of these values: as a whole, which is the same as value by value."""
    found = column.fill(pa.array(data, pa.binary())).to_pylist()
    one_by_one = [None if one is None else column.decode(one) for one in data]
    assert found == pa.array(one_by_one, column.arrow).to_pylist()
    return found


def described(kind: type) -> dict[str, Any]:
    # The manifest is JSON, so that is what a reader sees of a schema.
    described: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(json_of(kind).describe()))
    return described


def test_a_struct_type_becomes_struct_columns_and_the_rest_json_text() -> None:
    assert spark_type(column_type(described(Order)).arrow).simpleString() == (
        "struct<total:bigint,rate:double,items:array<struct<sku:string,pieces:bigint>>,"
        "counts:map<string,bigint>,either:string,note:string,state:string,parent:string,"
        "pair:string>"
    )


def test_json_documents_fill_their_columns_and_defaults_fill_what_is_absent() -> None:
    column = column_type(described(Order))
    order = Order(3, 0.5, [Item("x")], {"a": 1}, "text", parent=Order(1, 1.0, [], {}, 7))
    partial = b'{"total": 1, "rate": 1, "items": [{"sku": "y"}], "counts": {}, "either": 5}'

    found = filled(column, msgspec.json.encode(order), partial, None)

    assert column.whole is not None
    assert column.whole(pa.array([partial], pa.binary())).to_pylist() == found[1:2]
    assert found[0]["items"] == [{"sku": "x", "pieces": 1}]
    assert found[0]["counts"] == [("a", 1)]
    assert found[0]["either"] == '"text"'
    assert msgspec.json.decode(found[0]["parent"])["total"] == 1
    assert found[1]["items"] == [{"sku": "y", "pieces": 1}]
    assert found[1]["state"] == "open"
    assert found[1]["pair"] == '[0,""]'
    assert found[2] is None


class Place(msgspec.Struct, frozen=True):
    city: str = "here"


class Visit(msgspec.Struct, omit_defaults=True):
    place: Place = Place()
    stops: tuple[Place, ...] = (Place("there"),)
    since: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    fare: Decimal = Decimal("1.50")


def test_a_default_that_is_a_record_fills_what_is_absent() -> None:
    column = column_type(described(Visit))
    documents = [msgspec.json.encode(Visit()), msgspec.json.encode(Visit(Place("far")))]
    usual = {
        "place": {"city": "here"},
        "stops": [{"city": "there"}],
        "since": datetime(2026, 1, 1, tzinfo=UTC),
        "fare": Decimal("1.50"),
    }

    assert documents[0] == b"{}"
    assert filled(column, *documents) == [usual, {**usual, "place": {"city": "far"}}]
    assert column.whole is not None
    assert column.whole(pa.array(documents, pa.binary())).to_pylist() == filled(column, *documents)


@pytest.mark.parametrize(
    ("data", "description", "value", "name"),
    [
        (b"caf\xc3\xa9", "string", "café", "string"),
        ((-5).to_bytes(8, "big", signed=True), "int64", -5, "bigint"),
        ((-5).to_bytes(4, "big", signed=True), "int32", -5, "int"),
        (b"\xff\xfb", "int16", -5, "smallint"),
        (b"\x3f\xf8" + bytes(6), "float64", 1.5, "double"),
        (b"\x3f\xc0" + bytes(2), "float32", 1.5, "float"),
        (IDENTIFIER.upper().encode(), "uuid", IDENTIFIER, "string"),
        (UUID(IDENTIFIER).bytes, "uuid_bytes", IDENTIFIER, "string"),
        (b"\x01", "boolean", True, "boolean"),
        (b"\x00\xff", "bytes", b"\x00\xff", "binary"),
        (b"\x00\xff", "protobuf", b"\x00\xff", "binary"),
        (b'{"free": "form"}', "json", '{"free": "form"}', "string"),
    ],
)
def test_simple_formats_become_the_columns_they_name(
    data: bytes, description: str, value: object, name: str
) -> None:
    column = column_type({"format": description, "schema": None})

    assert column.decode(data) == value
    assert filled(column, data, None, data) == [value, None, value]
    assert spark_type(column.arrow).simpleString() == name


def test_names_that_differ_in_case_only_are_no_columns() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "A": {"type": "integer"}},
    }

    assert json_type(schema).arrow == pa.string()


@pytest.mark.parametrize("kind", ["key_value", "window", "session", "versioned", "outer_join"])
@pytest.mark.parametrize("are_times_integers", [True, False])
def test_arrow_types_are_those_spark_asks_for(kind: str, are_times_integers: bool) -> None:
    table = StoreTable(
        {"kind": kind, "key": {"format": "string"}, "value": described(Order)},
        are_times_integers=are_times_integers,
    )
    for columns in (
        table.batch_columns(with_tombstones=True, with_meta=True),
        table.change_columns(with_meta=True),
    ):
        own = pa.schema([(column.name, column.arrow) for column in columns])

        assert own.equals(to_arrow_schema(spark_schema(arrow_schema(columns)), timezone="UTC"))


ORDER_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "total", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "states", "type": {"type": "array", "items": "State"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
        {"name": "either", "type": ["long", "string"]},
    ],
}
ORDER: dict[str, Any] = {
    "total": 3,
    "note": None,
    "state": "PAID",
    "states": ["OPEN"],
    "at": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
    "price": Decimal("12.34"),
    "counts": {"a": 1},
    "parent": None,
    "either": "text",
}


@pytest.mark.parametrize("registry", [None, "mock://types"])
def test_avro_records_become_structs_plain_and_framed(registry: str | None) -> None:
    serde = avro(ORDER_AVRO, registry=registry)
    data = serde.serializer("orders", False)(ORDER)

    column = column_type(serde.describe())
    (value,) = pa.array([column.decode(data)], column.arrow).to_pylist()

    assert spark_type(column.arrow).simpleString() == (
        "struct<total:bigint,note:string,state:string,states:array<string>,at:timestamp,"
        "price:decimal(9,2),counts:map<string,int>,parent:string,either:string>"
    )
    assert value == {**ORDER, "counts": [("a", 1)], "either": '"text"'}


@pytest.mark.parametrize("unit", ["millis", "micros"])
@pytest.mark.parametrize("kind", ["timestamp", "local-timestamp"])
def test_points_in_time_of_avro_are_timestamps_and_those_without_a_zone_are_in_utc(
    kind: str, unit: str
) -> None:
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    of_time = {"type": "long", "logicalType": f"{kind}-{unit}"}
    fields = [{"name": "at", "type": of_time}, {"name": "end", "type": ["null", of_time]}]
    serde = avro({"type": "record", "name": "Visit", "fields": fields})
    given = moment.replace(tzinfo=None) if kind == "local-timestamp" else moment
    data = serde.serializer("t", False)({"at": given, "end": given})

    assert filled(column_type(serde.describe()), data) == [{"at": moment, "end": moment}]


def test_avro_records_of_an_older_schema_are_resolved_into_the_declared_one() -> None:
    fields = [field for field in ORDER_AVRO["fields"] if field["name"] != "note"]
    older = avro({**ORDER_AVRO, "fields": fields}, registry="mock://older")
    data = older.serializer("orders", False)({k: v for k, v in ORDER.items() if k != "note"})

    column = column_type(avro(ORDER_AVRO, registry="mock://older").describe())

    assert column.decode(data)["note"] is None


def test_avro_rows_that_name_their_schema_need_no_registry_for_columns() -> None:
    older = {**ORDER_AVRO, "fields": [f for f in ORDER_AVRO["fields"] if f["name"] != "note"]}
    row = {name: value for name, value in ORDER.items() if name != "note"}
    data = avro(older, single_object=True).serializer("orders", False)(row)

    column = column_type(avro(ORDER_AVRO, single_object=True, also_read=[older]).describe())
    (value,) = pa.array([column.decode(data)], column.arrow).to_pylist()

    assert value == {**row, "note": None, "counts": [("a", 1)], "either": '"text"'}


def test_defaults_of_the_declared_avro_schema_are_values_in_columns() -> None:
    day = {"type": "int", "logicalType": "date"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    before = {"type": "record", "name": "Sale", "fields": [{"name": "n", "type": "long"}]}
    added = [
        {"name": "price", "type": price, "default": "\u0001\u0000"},
        {"name": "days", "type": {"type": "array", "items": day}, "default": [1]},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
    ]
    now = {**before, "fields": [*before["fields"], *added]}
    data = avro(before, registry="mock://defaults").serializer("sales", False)({"n": 1})
    column = column_type(avro(now, registry="mock://defaults").describe())

    (row,) = filled(column, data)
    assert row == {"n": 1, "price": Decimal("2.56"), "days": [date(1970, 1, 2)], "raw": b"\xff"}


class Payment(msgspec.Struct):
    paid_at: datetime
    due: date
    amount: Decimal
    id: UUID
    receipt: bytes
    history: list[datetime]
    refunded: Decimal | None = None
    until: date = date(2030, 1, 2)


def test_times_decimals_and_bytes_have_their_types() -> None:
    column = column_type(described(Payment))
    payment = Payment(
        datetime(2024, 5, 6, 7, 8, 9, 123, timezone(timedelta(hours=2))),
        date(2024, 5, 7),
        Decimal("12345678901234567890.123456789012345678"),
        UUID(int=7),
        b"\x00\xff",
        [datetime(2024, 1, 1)],  # noqa: DTZ001 - without a time zone
    )
    value = column.decode(msgspec.json.encode(payment))
    (found,) = pa.array([value], column.arrow).to_pylist()

    assert spark_type(column.arrow).simpleString() == (
        "struct<paid_at:timestamp,due:date,amount:decimal(38,18),id:string,receipt:binary,"
        "history:array<timestamp>,refunded:decimal(38,18),until:date>"
    )
    assert found == {
        "paid_at": datetime(2024, 5, 6, 5, 8, 9, 123, UTC),
        "due": date(2024, 5, 7),
        "amount": payment.amount,
        "id": str(payment.id),
        "receipt": b"\x00\xff",
        "history": [datetime(2024, 1, 1, tzinfo=UTC)],
        "refunded": None,
        "until": date(2030, 1, 2),
    }


def test_a_decimal_that_does_not_fit_is_an_error_and_not_another_number() -> None:
    column = column_type(described(Payment))
    value = {"amount": "0.0000000000000000001"}

    with pytest.raises(pa.ArrowInvalid):
        pa.array([column.decode(msgspec.json.encode(value))], column.arrow)


def protobuf_column(message: Any, **options: Any) -> Any:
    description = protobuf(message, **options).describe()
    return column_type(msgspec.json.decode(msgspec.json.encode(description)))


def test_a_message_of_protobuf_becomes_columns_by_its_numbers() -> None:
    column = protobuf_column(Click)
    assert spark_type(column.arrow).simpleString() == (
        "struct<user:string,count:bigint,tags:array<string>,kind:string,at:timestamp,"
        "inner:string,note:string,prices:map<string,double>,items:array<struct<sku:binary>>>"
    )
    click = Click(user="ada", tags=["a"], kind=1, prices={"x": 1.5}, items=[Click.Item(sku=b"s")])
    click.at.FromDatetime(datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC))
    click.inner.user = "bob"
    values = [column.decode(click.SerializeToString()), column.decode(b""), None]
    filled = pa.array(values, column.arrow).to_pylist()

    assert filled[0]["user"] == "ada"
    assert filled[0]["kind"] == "SHOP"
    assert filled[0]["at"] == datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    assert msgspec.json.decode(filled[0]["inner"])["user"] == "bob"
    assert filled[0]["prices"] == [("x", 1.5)]
    assert filled[0]["items"] == [{"sku": b"s"}]
    # What can be asked whether it is set is null, everything else has its type's default.
    assert (filled[1]["count"], filled[1]["kind"], filled[1]["note"]) == (0, "WEB", None)
    assert filled[1]["at"] is None
    assert filled[2] is None


def test_numbers_without_a_sign_do_not_overflow() -> None:
    wide = total((1, "u", "uint64"), (2, "v", "uint32"))
    column = protobuf_column(wide)
    assert spark_type(column.arrow).simpleString() == "struct<u:decimal(20,0),v:bigint>"
    largest = wide(u=2**64 - 1, v=2**32 - 1).SerializeToString()
    filled = pa.array([column.decode(largest), column.decode(b"")], column.arrow).to_pylist()
    assert filled == [{"u": Decimal(2**64 - 1), "v": 2**32 - 1}, {"u": Decimal(0), "v": 0}]


def test_framed_messages_of_protobuf_are_read_behind_their_frame() -> None:
    serde = protobuf(Other, registry="mock://spark-protobuf")
    framed = serde.serializer("t", False)(Other(text="a"))
    column = protobuf_column(Other, registry="mock://spark-protobuf")
    assert column.decode(framed) == {"text": "a"}
    with pytest.raises(ValueError, match="not framed"):
        column.decode(b"\x0a\x01a")


def test_json_with_its_schema_in_a_registry_has_the_columns_of_its_type() -> None:
    serde = json_schema_of(Item, registry="mock://spark-json")
    column = column_type(msgspec.json.decode(msgspec.json.encode(serde.describe())))
    assert spark_type(column.arrow).simpleString() == "struct<sku:string,pieces:bigint>"
    framed = serde.serializer("t", False)(Item("x"))
    assert column.decode(framed) == {"sku": "x", "pieces": 1}
    with pytest.raises(SerdeError, match="do not begin with a schema id"):
        column.decode(b'{"sku":"x"}')


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.name)
def test_every_format_has_a_column_per_field(format_: Format) -> None:
    serde = format_.order()
    column = column_type(msgspec.json.decode(msgspec.json.encode(serde.describe())))
    kinds = {field.name: field.dataType.simpleString() for field in spark_type(column.arrow)}  # type: ignore[attr-defined]
    assert kinds == {"customer": "string", "amount": "bigint", "note": "string"}
    fields = {"customer": "ada", "amount": 3, "note": "gift"}
    data = serde.serializer("t", False)(format_.make(**fields))
    assert filled(column, data) == [fields]


@pytest.mark.parametrize("windows", [False, True])
def test_the_changelog_of_a_faust_table_has_columns_of_its_own(windows: bool) -> None:
    names = ("faust-windows" if windows else "faust", "faust")
    entry = {"kind": "key_value", "key": {"format": names[0]}, "value": {"format": names[1]}}
    table = StoreTable(entry, are_times_integers=True)
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    times = ["window_start", "window_end"] if windows else []
    assert [column.name for column in columns] == ["key", *times, "value"]
    key = b'["ada",[1699999980.0,1700000039.9]]' if windows else b'"ada"'
    row = record_batch(columns, block_with(key, b"3")).to_pylist()[0]
    times_ms = {"window_start": 1_699_999_980_000, "window_end": 1_700_000_040_000}
    assert row == {"key": "ada", "value": "3", **(times_ms if windows else {})}
