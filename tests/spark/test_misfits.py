"""What does not fit its column is an error that names it, never another value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.contracts.errors import DeserializationError
from logstate.contracts.records import TopicPartition

FRAME = b"\x00\x00\x00\x00\x01"
#: column by column, and row by row, which is the way of all formats but plain JSON
FORMATS = ["json", "json_schema"]

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
BOOLEAN = {"type": "boolean"}
DECIMAL = {**TEXT, "format": "decimal"}
DATE = {**TEXT, "format": "date"}
INSTANT = {**TEXT, "format": "date-time"}
BYTES = {**TEXT, "contentEncoding": "base64"}


def column_of(format_: str, schema: dict[str, Any], *documents: str) -> list[Any]:
    """The values of these documents as a table has them; the first record is at offset 40."""
    entry = {
        "name": "spend",
        "kind": "key_value",
        "key": {"format": "string"},
        "value": {"format": format_, "schema": schema},
    }
    columns = StoreTable(entry).batch_columns(with_tombstones=False, with_meta=False)
    frame = FRAME if format_ == "json_schema" else b""
    count = len(documents)
    block = Block(
        TopicPartition("shop-spend-changelog", 3),
        pa.array([b"k"] * count, pa.binary()),
        pa.array([frame + text.encode() for text in documents], pa.binary()),
        pa.array(range(40, 40 + count), pa.int64()),
        pa.array([0] * count, pa.int64()),
    )
    return [row["value"] for row in record_batch(columns, block).to_pylist()]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("schema", "good", "bad", "why"),
    [
        (INTEGER, "1", "1.5", "1.5 is not a whole number of 64 bits"),
        (INTEGER, "1", "true", "true is not a whole number of 64 bits"),
        (INTEGER, "1", '"7"', '"7" is not a whole number of 64 bits'),
        (INTEGER, "1", "1e300", "1e300 is not a whole number of 64 bits"),
        (
            INTEGER,
            "1",
            "9223372036854775808",
            "9223372036854775808 is not a whole number of 64 bits",
        ),
        (INTEGER, "1", "-9223372036854775809", "is not a whole number of 64 bits"),
        (INTEGER, "1", "9007199254740993.0", "is not a whole number of 64 bits"),
        (NUMBER, "1.5", "true", "true is not a number"),
        (NUMBER, "1.5", '"1.5"', '"1.5" is not a number'),
        (TEXT, '"a"', "7", "7 is not a text"),
        (TEXT, '"a"', '["a"]', '["a"] is not a text'),
        (BOOLEAN, "true", "1", "1 is not a boolean"),
        (BOOLEAN, "true", '"true"', '"true" is not a boolean'),
        (DECIMAL, '"1.5"', "false", "false is not a decimal number"),
        (DECIMAL, '"1.5"', '"one"', '"one" is not a decimal number'),
        (DECIMAL, '"1.5"', '"NaN"', '"NaN" is not a decimal number'),
        (DECIMAL, '"1.5"', "0.1000000000000000000001", "data loss"),
        (DATE, '"2024-05-06"', "19849", "19849 is not a date"),
        (INSTANT, '"2024-05-06T07:08:09Z"', "1714979289", "1714979289 is not a point in time"),
        (BYTES, '"AAE="', '"A?A="', "base64"),
        ({"type": "array", "items": INTEGER}, "[1]", "[1, 2.5]", "1: 2.5 is not a whole number"),
        ({"type": "array", "items": INTEGER}, "[1]", '"12"', '"12" is not a list'),
        (
            {"type": "object", "additionalProperties": INTEGER},
            '{"a": 1}',
            '{"a": true}',
            "a: true is not a whole number",
        ),
        (
            {"type": "object", "properties": {"lines": {"type": "array", "items": NUMBER}}},
            '{"lines": [1]}',
            '{"lines": [0, true]}',
            "lines.1: true is not a number",
        ),
        (
            {"type": "object", "properties": {"n": INTEGER}},
            '{"n": 1}',
            "[1]",
            "[1] is not a record",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_record_and_the_value(
    format_: str, schema: dict[str, Any], good: str, bad: str, why: str
) -> None:
    assert len(column_of(format_, schema, good, "null", good)) == 3

    with pytest.raises(DeserializationError) as caught:
        column_of(format_, schema, good, bad, good)

    said = str(caught.value)
    assert said.startswith("shop-spend-changelog-3, offset 41, store 'spend': the value does not")
    assert why in said
    assert (caught.value.partition, caught.value.offset) == (3, 41)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("schema", "document", "value"),
    [
        (INTEGER, "2.0", 2),
        (INTEGER, "9223372036854775807", 2**63 - 1),
        (INTEGER, "-9223372036854775808", -(2**63)),
        (NUMBER, "7", 7.0),
        (NUMBER, "9007199254740993", 9007199254740992.0),
        (NUMBER, "18446744073709551616", 2.0**64),
        (
            DECIMAL,
            "12345678901234567890.123456789012345678",
            "12345678901234567890.123456789012345678",
        ),
        (DECIMAL, "7", "7"),
    ],
)
def test_what_loses_nothing_is_taken(
    format_: str, schema: dict[str, Any], document: str, value: Any
) -> None:
    wanted = Decimal(value) if isinstance(value, str) else value
    assert column_of(format_, schema, document, "null") == [wanted, None]


@pytest.mark.parametrize("format_", FORMATS)
def test_numbers_beside_a_decimal_are_what_they_are_without_one(format_: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "price": DECIMAL,
            "n": INTEGER,
            "x": NUMBER,
            "any": {"anyOf": [TEXT, NUMBER]},
        },
    }
    document = '{"price": 0.10, "n": 2.0, "x": 1.25, "any": 1.5}'
    row = {"price": Decimal("0.10"), "n": 2, "x": 1.25, "any": "1.5"}
    assert column_of(format_, schema, document) == [row]
    assert column_of(format_, schema, document.replace("2.0", "2")) == [row]
    with pytest.raises(DeserializationError, match=r"n: 2\.5 is not a whole number"):
        column_of(format_, schema, document.replace("2.0", "2.5"))
    for far in ("1e999999999", "1e-999999999"):  # digits without end are not written out
        with pytest.raises(DeserializationError, match=r"n: .* is not a whole number"):
            column_of(format_, schema, document.replace("2.0", far))
