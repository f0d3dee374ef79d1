import dataclasses
import datetime
import enum
import io
import json
import subprocess
import sys
import typing

import avro.io
import avro.schema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import SerdeError
from logstate.serdes import avro as avro_of
from logstate.serdes.avro import AvroSerde
from tests.patience import PATIENCE_S

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "at", "type": ["null", "long"], "default": None},
    ],
}
SIZE = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "ratio", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "maybe", "type": ["null", "string"]},
        {"name": "items", "type": {"type": "array", "items": "long"}},
        {"name": "by_name", "type": {"type": "map", "values": "double"}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "click", "type": CLICK},
    ],
}
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
DOUBLE = st.floats(allow_nan=False)
CLICKS = st.fixed_dictionaries({"user": st.text(), "count": INT32, "at": st.none() | INT64})
RECORDS = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": INT32,
        "large": INT64,
        "ratio": DOUBLE,
        "raw": st.binary(),
        "text": st.text(),
        "maybe": st.none() | st.text(),
        "items": st.lists(INT64),
        "by_name": st.dictionaries(st.text(), DOUBLE),
        "suit": st.sampled_from(["A", "B"]),
        "hash": st.binary(min_size=4, max_size=4),
        "click": CLICKS,
    }
)


def encode(serde: AvroSerde[typing.Any], value: object) -> bytes:
    return serde.serializer("clicks", is_key=False)(value)


def decode(serde: AvroSerde[typing.Any], data: bytes) -> object:
    return serde.deserializer("clicks", is_key=False)(data)


def apache_encode(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    writer = avro.io.DatumWriter(avro.schema.parse(json.dumps(schema)))
    writer.write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def apache_decode(writer: object, reader: object, data: bytes) -> object:
    parsed = (avro.schema.parse(json.dumps(schema)) for schema in (writer, reader))
    return avro.io.DatumReader(*parsed).read(avro.io.BinaryDecoder(io.BytesIO(data)))


@given(RECORDS)
def test_the_apache_library_reads_what_is_written(value: dict[str, object]) -> None:
    assert apache_decode(EVERYTHING, EVERYTHING, encode(avro_of(EVERYTHING), value)) == value


@given(RECORDS)
def test_what_the_apache_library_writes_is_read(value: dict[str, object]) -> None:
    assert decode(avro_of(EVERYTHING), apache_encode(EVERYTHING, value)) == value


@given(CLICKS)
def test_the_bytes_are_those_of_the_apache_library(value: dict[str, object]) -> None:
    assert encode(avro_of(CLICK), value) == apache_encode(CLICK, value)


def test_a_missing_field_with_a_default_takes_it() -> None:
    serde = avro_of(CLICK)

    assert decode(serde, encode(serde, {"user": "ada", "count": 1})) == {
        "user": "ada",
        "count": 1,
        "at": None,
    }


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"user": "ada"}, r"shop\.Click\.count is missing or None, expected int"),
        ({"user": 5, "count": 1}, r"shop\.Click\.user is int, expected string"),
        ({"user": "ada", "count": "x"}, r"shop\.Click\.count is str, expected int"),
        ({"user": "ada", "count": 2**31}, r"shop\.Click\.count does not fit.*\"long\""),
        ({"user": "ada", "count": 2**80}, r"shop\.Click\.count is a number out of range for int"),
        ({"user": "ada", "count": 1, "at": 2**63}, r"shop\.Click\.at is"),
        ({"user": "ada", "count": 1, "page": "x"}, "the schema has no field page"),
        ("ada", r"the value is str, expected shop\.Click"),
        (None, "the value is missing or None"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(value: object, complaint: str) -> None:
    with pytest.raises(SerdeError, match=complaint):
        encode(avro_of(CLICK), value)


def test_errors_do_not_quote_the_value() -> None:
    with pytest.raises(SerdeError) as caught:
        encode(avro_of(CLICK), {"user": "ada", "count": "4111-1111"})

    assert "4111" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_int_too_wide_is_found_wherever_it_is() -> None:
    nested = avro_of(
        {
            "type": "record",
            "name": "Deep",
            "fields": [
                {
                    "name": "rows",
                    "type": {"type": "array", "items": {"type": "map", "values": "int"}},
                }
            ],
        }
    )

    assert decode(nested, encode(nested, {"rows": [{"a": 1}]})) == {"rows": [{"a": 1}]}
    with pytest.raises(SerdeError, match=r"Deep\.rows\[\]\[\] does not fit"):
        encode(nested, {"rows": [{"a": 1}, {"b": -(2**31) - 1}]})


@pytest.mark.parametrize("data", [b"", b"\x06ad", b"\xff" * 20, b"\x06ada\x02\x00 left over"])
def test_bytes_that_do_not_decode_are_refused(data: bytes) -> None:
    with pytest.raises(SerdeError, match=r"shop\.Click.*very same"):
        decode(avro_of(CLICK), data)


def test_a_framed_record_without_a_registry_gets_a_hint() -> None:
    framed = encode(avro_of(CLICK, registry="mock://hint"), {"user": "ada", "count": 1})

    with pytest.raises(SerdeError, match="registry= missing"):
        decode(avro_of(CLICK), framed)


class Suit(enum.Enum):
    HEARTS = "HEARTS"


class Click(msgspec.Struct, frozen=True):
    user: str
    count: int
    at: int | None = None


@dataclasses.dataclass
class Booking:
    day: datetime.date
    at: datetime.datetime
    raw: bytes
    suit: Suit


BOOKING = {
    "type": "record",
    "name": "Booking",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "raw", "type": "bytes"},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS"]}},
    ],
}


def test_records_become_the_declared_type() -> None:
    serde = avro_of(CLICK, type=Click)

    assert decode(serde, encode(serde, Click("ada", 3))) == Click("ada", 3)
    assert encode(serde, Click("ada", 3)) == encode(avro_of(CLICK), {"user": "ada", "count": 3})


def test_logical_types_keep_their_python_types() -> None:
    serde = avro_of(BOOKING, type=Booking)
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
    booking = Booking(datetime.date(2026, 1, 2), at, b"\x00", Suit.HEARTS)

    assert decode(serde, encode(serde, booking)) == booking


def test_objects_are_shared_only_when_nothing_is_lost_in_between() -> None:
    single = {**CLICK, "fields": [*CLICK["fields"], {"name": "ratio", "type": "float"}]}

    assert avro_of(CLICK, type=Click).immutable
    assert not avro_of(CLICK).immutable
    assert not avro_of(single, type=Click).immutable
    assert not avro_of(BOOKING, type=Click).immutable


@pytest.mark.parametrize("schema", ["long", json.dumps("long"), {"type": "long"}])
def test_primitive_schemas_can_be_named(schema: typing.Any) -> None:
    assert decode(avro_of(schema), encode(avro_of(schema), -3)) == -3
    assert encode(avro_of(schema), -3) == b"\x05"


@pytest.mark.parametrize(
    "schema",
    [
        "nonsense",
        "{",
        {"type": "record"},
        {"type": "record", "name": "R", "fields": [{"name": "x"}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "Missing"}]},
        5,
    ],
)
def test_an_invalid_schema_is_refused_when_declared(schema: typing.Any) -> None:
    with pytest.raises(SerdeError, match="Avro schema is not"):
        avro_of(schema)


def test_neither_schema_nor_registry_is_refused() -> None:
    with pytest.raises(SerdeError, match="a schema, or a registry"):
        avro_of()


def test_the_schema_is_described() -> None:
    description = avro_of(CLICK).describe()

    assert description == {"format": "avro", "schema": CLICK, "framing": "none", "registry": None}
    assert msgspec.json.encode(description)


CHAIN = {
    "type": "record",
    "name": "Chain",
    "fields": [{"name": "next", "type": ["null", "Chain"]}],
}


def chain(length: int) -> dict[str, typing.Any]:
    link: dict[str, typing.Any] = {"next": None}
    for _ in range(length):
        link = {"next": link}
    return link


@pytest.mark.parametrize("length", [0, 1, 100, 400])
def test_nested_records_come_back(length: int) -> None:
    serde = avro_of(CHAIN)
    back = decode(serde, encode(serde, chain(length)))

    for _ in range(length):
        back = typing.cast("dict[str, object]", back)["next"]
    assert back == {"next": None}


def test_a_record_nested_without_end_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(SerdeError, match="RecursionError"):
        decode(avro_of(CHAIN), b"\x02" * 100_000 + b"\x00")


def test_a_record_nested_too_deeply_to_be_read_is_not_written() -> None:
    with pytest.raises(SerdeError, match="RecursionError"):
        encode(avro_of(CHAIN), chain(700))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (SIZE, "M"),
        ([SIZE, "null"], "M"),
        ({"type": "array", "items": SIZE}, ["M", "S"]),
        ({"type": "map", "values": SIZE}, {"a": "S"}),
        ({"type": "map", "values": {"type": "array", "items": ["null", SIZE]}}, {"a": ["S"]}),
        ({"type": "fixed", "name": "Two", "size": 2}, b"ab"),
        (
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Node",
                    "fields": [
                        {"name": "size", "type": SIZE},
                        {"name": "below", "type": {"type": "array", "items": "Node"}},
                    ],
                },
            },
            [{"size": "M", "below": [{"size": "S", "below": []}]}],
        ),
    ],
    ids=["an enum", "a union", "an array", "a map", "a map of arrays", "a fixed", "a tree"],
)
@pytest.mark.parametrize("is_key", [False, True])
def test_a_schema_need_not_be_a_record(schema: typing.Any, value: typing.Any, is_key: bool) -> None:
    serde = avro_of(schema)
    written = serde.serializer("t", is_key)(value)

    assert serde.deserializer("t", is_key)(written) == value


def test_the_public_name_is_callable_before_and_after_the_module_is_imported() -> None:
    program = (
        "from logstate.serdes import avro; avro('long');"
        "import logstate.serdes.avro as a; assert a('long').describe()['format'] == 'avro'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def test_serdes_do_not_import_an_avro_library_until_asked() -> None:
    program = (
        "import sys; import logstate.serdes.built_in;"
        "assert 'fastavro' not in sys.modules and 'logstate.serdes.avro' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)
