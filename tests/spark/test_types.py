"""Descriptions of serdes become columns, and the Arrow type is the one Spark expects."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from logstate.changelog.spark.key_filter import wanted_keys
from logstate.changelog.spark.tables import StoreTable, spark_schema
from logstate.changelog.spark.types import column_type, json_type
from logstate.serdes.avro import avro


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


def described(kind: type) -> dict[str, Any]:
    # The manifest is JSON, so that is what a reader sees of a schema.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(kind)))
    return {"format": "json", "schema": schema}


def test_a_struct_type_becomes_struct_columns_and_the_rest_json_text() -> None:
    assert column_type(described(Order)).spark.simpleString() == (
        "struct<total:bigint,rate:double,items:array<struct<sku:string,pieces:bigint>>,"
        "counts:map<string,bigint>,either:string,note:string,state:string,parent:string,"
        "pair:string>"
    )


def test_json_documents_fill_their_columns_and_defaults_fill_what_is_absent() -> None:
    column = column_type(described(Order))
    order = Order(3, 0.5, [Item("x")], {"a": 1}, "text", parent=Order(1, 1.0, [], {}, 7))
    partial = b'{"total": 1, "rate": 1, "items": [{"sku": "y"}], "counts": {}, "either": 5}'

    values = [column.decode(msgspec.json.encode(order)), column.decode(partial), None]
    filled = pa.array(values, column.arrow).to_pylist()

    assert filled[0]["items"] == [{"sku": "x", "pieces": 1}]
    assert filled[0]["counts"] == [("a", 1)]
    assert filled[0]["either"] == '"text"'
    assert msgspec.json.decode(filled[0]["parent"])["total"] == 1
    assert filled[1]["items"] == [{"sku": "y", "pieces": 1}]
    assert filled[1]["state"] == "open"
    assert filled[1]["pair"] == '[0,""]'
    assert filled[2] is None


@pytest.mark.parametrize(
    ("data", "description", "value", "name"),
    [
        (b"caf\xc3\xa9", "string", "café", "string"),
        ((-5).to_bytes(8, "big", signed=True), "int64", -5, "bigint"),
        ((-5).to_bytes(4, "big", signed=True), "int32", -5, "int"),
        (b"\x3f\xf8" + bytes(6), "float64", 1.5, "double"),
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
    assert column.spark.simpleString() == name


def test_names_that_differ_in_case_only_are_no_columns() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "A": {"type": "integer"}},
    }

    assert json_type(schema).spark == spark.StringType()


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

        assert own.equals(to_arrow_schema(spark_schema(columns), timezone="UTC"))


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

    assert column.spark.simpleString() == (
        "struct<total:bigint,note:string,state:string,states:array<string>,at:timestamp,"
        "price:decimal(9,2),counts:map<string,int>,parent:string,either:string>"
    )
    assert value == {**ORDER, "counts": [("a", 1)], "either": '"text"'}


def test_avro_records_of_an_older_schema_are_resolved_into_the_declared_one() -> None:
    fields = [field for field in ORDER_AVRO["fields"] if field["name"] != "note"]
    older = avro({**ORDER_AVRO, "fields": fields}, registry="mock://older")
    data = older.serializer("orders", False)({k: v for k, v in ORDER.items() if k != "note"})

    column = column_type(avro(ORDER_AVRO, registry="mock://older").describe())

    assert column.decode(data)["note"] is None


def test_formats_with_several_encodings_are_not_narrowed() -> None:
    from pyspark.sql.datasource import EqualTo

    assert wanted_keys([EqualTo(("key",), "a")], "json") is None
    assert wanted_keys([EqualTo(("value",), "a")], "string") is None
    assert wanted_keys([EqualTo(("key",), "a")], "string") == {b"a"}
