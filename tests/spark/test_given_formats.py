"""Logs that no manifest describes: what options say of them becomes columns."""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logstate.changelog.reading.blocks import UNFRAMED, Block, block_of
from logstate.changelog.reading.ddl import schema_of_ddl
from logstate.changelog.reading.given_formats import given_entry, given_sides
from logstate.changelog.reading.options import parse_options
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.changelog.reading.types import json_type
from logstate.changelog.spark.schema import spark_type
from logstate.contracts.errors import ConfigError, DeserializationError
from logstate.contracts.records import TopicPartition
from logstate.registry.client import registry_of


def rows_of(key: bytes, value: bytes | None, **options: str) -> list[dict[str, Any]]:
    """The one record as these options make a row of it."""
    parsed = parse_options({"bootstrap": "b:1", "topic": "log", "times": "ms", **options})
    entry = given_entry(parsed) | given_sides(parsed)
    table = StoreTable(entry, are_times_integers=parsed.are_times_integers)
    number = pa.array([0])
    data = (pa.array([each], pa.binary()) for each in (key, value))
    block = Block(TopicPartition("log", 0), *data, number, number)
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    found: list[dict[str, Any]] = record_batch(columns, block).to_pylist()
    return found


def test_without_a_word_keys_and_values_are_bytes() -> None:
    assert rows_of(b"k", b"v") == [{"key": b"k", "value": b"v"}]


def test_columns_as_sql_writes_them_make_columns_of_json() -> None:
    schema = "total bigint, lines array<struct<sku: string, pieces: int>>, at timestamp"
    document = b'{"total": 3, "lines": [{"sku": "a", "pieces": 2}], "more": 1}'

    (row,) = rows_of(b"ada", document, keyFormat="string", valueSchema=schema)

    assert row["key"] == "ada"
    assert row["value"] == {"total": 3, "lines": [{"sku": "a", "pieces": 2}], "at": None}


def test_a_json_schema_says_the_same() -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})

    assert rows_of(b"k", b'{"n": 1}', valueSchema=schema)[0]["value"] == {"n": 1}


@pytest.mark.parametrize("data", [b"", b"hello", b"\x00\x01", b'{"a":1', b"1 2", b'"\xff"', b"NaN"])
@pytest.mark.parametrize("schema", [{}, {"valueSchema": '{"type": "object"}'}])
def test_bytes_that_are_not_json_are_refused_with_their_record(
    data: bytes, schema: dict[str, str]
) -> None:
    with pytest.raises(DeserializationError, match=r"log-0, offset 0, .* does not decode"):
        rows_of(b"k", data, valueFormat="json", **schema)


@pytest.mark.parametrize("text", ['{"a": [1, null]}', '"x"', "null", " 1.0 "])
def test_json_without_a_schema_is_its_text(text: str) -> None:
    (row,) = rows_of(b'{"k":1}', text.encode(), keyFormat="json", valueFormat="json")

    assert row == {"key": '{"k":1}', "value": text}
    assert rows_of(b"1", None, keyFormat="json", valueFormat="json")[0]["value"] is None


def test_avro_takes_its_schema() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}

    (row,) = rows_of(b"k", b"\x06", valueFormat="avro", valueSchema=json.dumps(schema))

    assert row["value"] == {"n": 3}


@pytest.mark.parametrize(
    ("kind", "tail", "expected"),
    [
        ("window", struct.pack(">qi", 1_000, 0), {"window_start": 1_000, "window_end": 1_500}),
        ("session", struct.pack(">qq", 9, 5), {"window_start": 5, "window_end": 9}),
        (
            "join_window",
            struct.pack(">qi", 1_000, 7),
            {"window_start": 1_000, "window_end": 1_500, "_sequence": 7},
        ),
    ],
)
def test_windows_of_kafka_streams_have_their_columns(
    kind: str, tail: bytes, expected: dict[str, int]
) -> None:
    options = {"storeKind": kind, "keyFormat": "string", "valueFormat": "int64"}

    (row,) = rows_of(b"ada" + tail, bytes(7) + b"\x02", windowSizeMs="500", **options)

    assert row == {"key": "ada", **expected, "value": 2}


@pytest.mark.parametrize(
    ("ddl", "simple"),
    [
        (
            "a int, `b c` string not null, d decimal(10, 2)",
            "struct<a:bigint,b c:string,d:decimal(38,18)>",
        ),
        ("m map<string, array<double>>", "struct<m:map<string,array<double>>>"),
        ("s struct<x: boolean, y: date>", "struct<s:struct<x:boolean,y:date>>"),
        ("string", "string"),
        ("array<bigint>", "array<bigint>"),
    ],
)
def test_types_of_sql_are_types_of_columns(ddl: str, simple: str) -> None:
    assert spark_type(json_type(schema_of_ddl(ddl)).arrow).simpleString() == simple


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("a", "'a' is not a supported type"),
        ("a bigint b string", "nothing was expected behind it, and 'b' is there"),
        ("a array<bigint", "'>' was expected and 'its end' is there"),
        ("a map<int, int>", "the keys of a map are strings"),
        ("a", "use one of tinyint"),
        ("a int,", "a name is missing at its end"),
    ],
)
def test_a_schema_that_is_not_understood_says_where(ddl: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        schema_of_ddl(ddl)


def test_what_contradicts_is_refused() -> None:
    with pytest.raises(ConfigError, match='valueSchema is given and valueFormat is "int64"'):
        rows_of(b"k", b"v", valueFormat="int64", valueSchema="a int")
    with pytest.raises(ConfigError, match="is for logs that no manifest describes"):
        parse_options({"bootstrap": "b:1", "application": "a", "store": "s", "storeKind": "window"})


GUID = uuid.UUID(int=7)
FRAME = b"\x01" + GUID.bytes


class HeaderRecord(NamedTuple):
    """A record of a topic, with headers."""

    pairs: list[tuple[str, bytes | None]] | None
    data: bytes | None

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.pairs

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes | None:
        return self.data

    def offset(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


def values_of(*records: Any, **options: str) -> list[Any]:
    """The values of a topic of others as its table has them."""
    parsed = parse_options({"bootstrap": "b:1", "topic": "log", **options})
    table = StoreTable(given_entry(parsed) | given_sides(parsed), registry=parsed.registry)
    block = block_of(TopicPartition("log", 0), records, frames=table.frames)
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    return [row["value"] for row in record_batch(columns, block).to_pylist()]


def test_the_schema_of_a_json_value_may_be_named_in_a_header() -> None:
    named = [("trace", b"x"), ("__value_schema_id", FRAME)]
    found = values_of(
        HeaderRecord(named, b'{"n": 1}'),
        HeaderRecord(None, bytes(5) + b'{"n": 2}'),
        HeaderRecord([("__value_schema_id", None)], FRAME + b'{"n": 3}'),
        HeaderRecord(named, None),
        valueFormat="json_schema",
        valueSchema="n bigint",
    )

    assert found == [{"n": 1}, {"n": 2}, {"n": 3}, None]


def test_avro_is_resolved_from_the_schema_that_a_header_names() -> None:
    """As Confluent's own serializer writes it, with the newer schema beside the older one."""
    url = "mock://headers-of-given-formats"
    older: dict[str, Any] = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "long"}],
    }
    note = {"name": "note", "type": ["null", "string"], "default": None}
    newer = {**older, "fields": [*older["fields"], note]}
    registry: Any = registry_of(url)
    records = []
    for schema, value in ((older, {"n": 1}), (newer, {"n": 2, "note": "x"})):
        headers: list[tuple[str, bytes | None]] = []
        write = AvroSerializer(
            registry._client,
            json.dumps(schema),
            conf={
                "schema.id.serializer": header_schema_id_serializer,
                "subject.name.strategy.type": "TOPIC",
            },
        )
        data = write(value, SerializationContext("log", MessageField.VALUE, headers))
        records.append(HeaderRecord(headers, data))
    assert records[0].data == b"\x02", "nothing is in front of the body"

    found = values_of(
        *records, valueFormat="avro", valueSchema=json.dumps(newer), schemaRegistry=url
    )

    assert found == [{"n": 1, "note": None}, {"n": 2, "note": "x"}]


def test_headers_that_an_application_has_handed_on_say_nothing_about_its_rows() -> None:
    given = {"bootstrap": "b:1", "application": "a", "store": "s", "valueFormat": "json_schema"}
    entry = given_sides(parse_options({**given, "valueSchema": "n bigint"}))

    assert StoreTable({"kind": "key_value", **entry}).frames == UNFRAMED
