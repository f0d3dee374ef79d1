"""Small bytes that would become large values, or take long: refused, and skipped as others are."""

from __future__ import annotations

import json as plain_json
import time
from decimal import Decimal
from typing import Any

import pytest

from logstate import ErrorHandlers, StreamsBuilder, TopologyTestDriver, dead_letter
from logstate.contracts.errors import SerdeError
from logstate.serdes import avro, json, json_of, protobuf
from tests.unit.logstate.serdes.protobuf_messages import classes, field

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}


def number(value: int) -> bytes:
    """As Avro writes a long."""
    value, out = (value << 1) if value >= 0 else (-value << 1) - 1, b""
    while True:
        bits, value = value & 0x7F, value >> 7
        out += bytes([bits | (0x80 if value else 0)])
        if not value:
            return out


def items(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}


def read(schema: Any, data: bytes, **options: Any) -> Any:
    return avro(schema, **options).deserializer("t", False)(data)


MANY = 50_000_000
COUNTS = [
    pytest.param("null", id="null"),
    pytest.param({"type": "fixed", "name": "F", "size": 0}, id="fixed of size 0"),
    pytest.param(EMPTY, id="empty record"),
]


@pytest.mark.parametrize("kind", COUNTS)
@pytest.mark.parametrize("where", ["alone", "in a record", "in a union", "in blocks with a size"])
def test_items_without_bytes_are_refused_before_they_are_read(kind: Any, where: str) -> None:
    schema, data = items(kind), number(MANY) + b"\0"
    if where == "in a record":
        schema = record(schema)
    elif where == "in a union":
        schema, data = ["null", schema], number(1) + data
    elif where == "in blocks with a size":
        data = number(-MANY) + b"\0\0"
    before = time.process_time()
    with pytest.raises(SerdeError, match="more items without bytes"):
        read(schema, data)
    assert time.process_time() - before < 1


def test_items_without_bytes_are_counted_over_the_whole_record() -> None:
    data = number(40) + (number(3_000) + b"\0") * 40 + b"\0"
    with pytest.raises(SerdeError, match="more items without bytes"):
        read(items(items("null")), data)
    few = number(2) + (number(3_000) + b"\0") * 2 + b"\0"
    assert [len(one) for one in read(items(items("null")), few)] == [3_000, 3_000]


def test_a_field_that_the_reader_skips_is_bounded_as_well() -> None:
    registry = "mock://bounds-of-decoding"
    write = avro(record(items("null")), registry=registry).serializer("t", False)
    framed = write({"x": []})[:5] + number(MANY) + b"\0"
    now = {"type": "record", "name": "R", "fields": []}
    with pytest.raises(SerdeError, match="more items without bytes"):
        read(now, framed, registry=registry)


def test_the_user_allows_more_items_without_bytes() -> None:
    data = number(100_001) + b"\0"
    with pytest.raises(SerdeError, match="raise max_empty_items="):
        read(items("null"), data)
    assert len(read(items("null"), data, max_empty_items=100_001)) == 100_001


@pytest.mark.parametrize("where", ["alone", "in a record", "in a union", "in an array"])
def test_a_decimal_far_beyond_its_precision_is_refused_before_it_is_read(where: str) -> None:
    schemas = {
        "alone": (PRICE, b""),
        "in a record": (record(PRICE), b""),
        "in a union": (["null", PRICE], number(1)),
        "in an array": (items(PRICE), number(1)),
    }
    schema, front = schemas[where]
    before = time.process_time()
    with pytest.raises(
        SerdeError, match="a decimal of 300000 bytes, and its precision 10 needs at"
    ):
        read(schema, front + number(300_000) + b"\x7f" * 300_000)
    assert time.process_time() - before < 1


@pytest.mark.parametrize("precision", [1, 4, 9, 10, 18, 38, 77])
@pytest.mark.parametrize("sign", [1, -1])
def test_every_decimal_of_a_precision_is_read(precision: int, sign: int) -> None:
    schema = {**PRICE, "precision": precision, "scale": 0}
    largest = Decimal(sign * (10**precision - 1))
    serde = avro(schema)
    data = serde.serializer("t", False)(largest)
    assert serde.deserializer("t", False)(data) == largest
    raw = int(largest).to_bytes(len(data) + 7, "big", signed=True)  # filled up with its sign
    assert serde.deserializer("t", False)(number(len(raw)) + raw) == largest


def _deep(file: Any) -> None:
    message = file.message_type.add(name="Deep")
    field(message, 1, "inner", ".shop.Deep")


Deep: Any = classes(_deep)["Deep"]


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        length, front = len(data), b""
        while length > 0x7F:
            front, length = front + bytes([length & 0x7F | 0x80]), length >> 7
        data = b"\x0a" + front + bytes([length]) + data
    return data


BOMBS = {
    "Avro nulls": (avro(items("null")), number(MANY) + b"\0"),
    "Avro decimal": (avro(PRICE), number(300_000) + b"\x7f" * 300_000),
    "Avro length": (avro("string"), number(MANY) + b"a"),
    "Avro count": (avro(items("long")), number(MANY) + b"\0\0"),
    "deep JSON": (json, b"[" * 200_000 + b"]" * 200_000),
    "deep JSON in a type": (json_of(dict[str, Any]), b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
    "a number in JSON": (json_of(list[int]), b"[" + b"9" * 300_000 + b"]"),
    "deep Protobuf": (protobuf(Deep), nested(5_000)),
    "groups of Protobuf": (protobuf(Deep), b"\x23" * 100_000 + b"\x24" * 100_000),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_handler_skips_such_a_record_and_the_dead_letter_topic_gets_it(bomb: Any) -> None:
    serde, data = bomb
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=serde).map_values(lambda _: "read", value=str).to("out")
    builder.stream("other", key=str, value=str).to("out")
    handlers = ErrorHandlers(deserialization=dead_letter, dead_letter_topic="dead")
    before = time.process_time()
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe_raw("in", b"k", data, 0)
        driver.pipe("other", "k", "next")
        assert driver.read("out", key=str, value=str) == [("k", "next")]
        assert [one.value for one in driver.outputs if one.topic == "dead"] == [data]
    assert time.process_time() - before < 3


def test_what_json_allows_is_still_read() -> None:
    data = b"[" * 100 + b"]" * 100
    assert json.deserializer("t", False)(data) == plain_json.loads(data)
