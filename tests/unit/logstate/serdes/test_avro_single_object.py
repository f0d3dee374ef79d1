"""Avro rows that name their schema by its fingerprint."""

from __future__ import annotations

import json
from typing import Any

import fastavro.schema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import StreamsBuilder
from logstate.contracts.compatibility import Verdict
from logstate.contracts.errors import LogstateError, SerdeError
from logstate.serdes import avro
from logstate.serdes.avro import schema_fingerprint
from logstate.serdes.compatibility import serde_changes
from logstate.serdes.described import readable_decoder
from logstate.testing import TopologyTestDriver

NOTE = {"name": "note", "type": "string", "default": "none"}
INT64 = st.integers(-(2**63), 2**63 - 1)


def total(*fields: dict[str, Any], **of_n: Any) -> dict[str, Any]:
    n = {"name": "n", "type": "long", **of_n}
    return {"type": "record", "name": "Total", "namespace": "shop", "fields": [n, *fields]}


OLD, NEW = total(), total(NOTE)
AT = {"type": "long", "logicalType": "timestamp-millis"}


def named(schema: Any, *also_read: Any, **options: Any) -> Any:
    return avro(schema, single_object=True, also_read=also_read, **options)


def written(serde: Any, value: Any) -> bytes:
    data: bytes = serde.serializer("t", False)(value)
    return data


def changes(stored: Any, declared: Any) -> list[tuple[Verdict, str]]:
    """The verdicts and their meanings, from descriptions as a manifest stores them."""
    sides = (json.loads(msgspec.json.encode(one.describe())) for one in (stored, declared))
    return [(one.verdict, one.meaning) for one in serde_changes("store 's'", "value", *sides)]


@pytest.mark.parametrize(
    ("schema", "fingerprint"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
    ],
)
def test_fingerprints_are_those_of_avros_own_tests(schema: str, fingerprint: int) -> None:
    assert schema_fingerprint(schema) == fingerprint.to_bytes(8, "little", signed=True)


def test_a_row_is_the_marker_the_fingerprint_and_the_plain_body() -> None:
    canonical = fastavro.schema.to_parsing_canonical_form(OLD)
    crc = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))

    assert written(named(OLD), {"n": 3}) == b"\xc3\x01" + crc + written(avro(OLD), {"n": 3})


@given(n=INT64)
def test_rows_of_every_declared_schema_are_resolved_into_the_newest(n: int) -> None:
    serde = named(NEW, OLD)
    read = serde.deserializer("t", False)

    assert read(written(named(OLD), {"n": n})) == {"n": n, "note": "none"}
    assert read(written(serde, {"n": n, "note": "x"})) == {"n": n, "note": "x"}


def test_a_row_becomes_the_declared_type() -> None:
    class Total(msgspec.Struct):
        n: int
        note: str

    serde = named(NEW, OLD, type=Total)

    assert serde.deserializer("t", False)(written(named(OLD), {"n": 3})) == Total(3, "none")
    assert serde.deserializer("t", False)(written(serde, Total(4, "x"))) == Total(4, "x")


def test_a_row_of_an_unknown_schema_is_refused_with_both_fingerprints() -> None:
    with pytest.raises(SerdeError, match="also_read=") as refused:
        named(OLD).deserializer("t", False)(written(named(NEW), {"n": 1, "note": ""}))

    for schema in (OLD, NEW):
        assert schema_fingerprint(schema).hex() in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\xc3", b"\xc3\x01abc", b"\x06", b"\0" * 12])
def test_bytes_without_the_header_are_refused(data: bytes) -> None:
    with pytest.raises(SerdeError, match="do not begin with c301"):
        named(OLD).deserializer("t", False)(data)


def test_a_damaged_body_is_refused_with_its_schema() -> None:
    data = written(named(OLD), {"n": 3})

    with pytest.raises(SerdeError, match=schema_fingerprint(OLD).hex()):
        named(NEW, OLD).deserializer("t", False)(data + b"\x00")


def test_keys_are_refused_when_the_topology_starts() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=named("long"), value=str).to("out")

    with pytest.raises(LogstateError, match="cannot write keys"):
        TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": OLD, "also_read": [NEW]}, "needs single_object=True"),
        ({"schema": OLD, "single_object": True, "registry": "mock://so"}, "no registry"),
        ({"single_object": True}, "needs a schema"),
        ({"schema": OLD, "single_object": True, "also_read": [{"type": "x"}]}, "not valid"),
    ],
)
def test_arguments_that_contradict_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        avro(**arguments)


def test_serdes_are_equal_if_they_write_and_read_alike() -> None:
    assert named(NEW, OLD) == named(NEW, OLD)
    assert named(NEW) != named(NEW, OLD)
    assert named(NEW) != avro(NEW)


def test_a_description_alone_reads_rows_of_every_schema() -> None:
    description = json.loads(msgspec.json.encode(named(NEW, OLD).describe()))

    read = readable_decoder(description)

    assert read(written(named(OLD), {"n": 3})) == {"n": 3, "note": "none"}
    assert read(written(named(NEW), {"n": 3, "note": "x"})) == {"n": 3, "note": "x"}


def test_a_change_that_avro_resolves_is_compatible_if_the_stored_schema_is_read() -> None:
    assert [verdict for verdict, _ in changes(named(OLD), named(NEW, OLD))] == [Verdict.COMPATIBLE]
    assert not changes(named(NEW), named(NEW, OLD))
    assert not changes(named(OLD), named({**OLD, "doc": "how many"}))


def test_a_schema_that_rows_may_have_must_stay_readable() -> None:
    third = total(NOTE, {"name": "more", "type": "long", "default": 0})
    for declared in (named(NEW), named(third, NEW)):
        ((_, meaning),) = (
            one for one in changes(named(NEW, OLD), declared) if one[0] is Verdict.REFUSED
        )
        assert "also_read=" in meaning
    found = changes(named(NEW, OLD), named(third, NEW, OLD))
    assert {verdict for verdict, _ in found} == {Verdict.COMPATIBLE}


def test_a_change_that_avro_does_not_resolve_is_refused() -> None:
    needed = total({"name": "note", "type": "string"})

    ((verdict, meaning),) = changes(named(OLD), named(needed, OLD))

    assert verdict is Verdict.REFUSED
    assert "By Avro's rules" in meaning


@pytest.mark.parametrize("declared", [named(OLD), named(NEW, OLD)])
def test_a_logical_type_may_not_change_although_the_fingerprint_stays(declared: Any) -> None:
    found = changes(named(total(type=AT)), declared)

    assert found[0][0] is Verdict.REFUSED
    assert "logical type" in found[0][1]


@pytest.mark.parametrize("registry", [None, "mock://single-object"])
def test_rows_in_another_encoding_are_refused_both_ways(registry: str | None) -> None:
    other = avro(OLD, registry=registry)
    for sides in ((other, named(OLD)), (named(OLD), other), (other, named(NEW, OLD))):
        ((verdict, meaning),) = changes(*sides)
        assert verdict is Verdict.REFUSED
        assert "another name" in meaning


def test_a_plain_body_can_equal_a_row_that_names_its_schema() -> None:
    """Why rows of both encodings in one store cannot be distinguished."""
    pairs = {"type": "record", "name": "P", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": {"type": "fixed", "name": "F",
         "size": 8}}, {"name": "c", "type": "long"},
    ]}  # fmt: skip
    row = written(named("long"), 7)

    value = avro(pairs).deserializer("t", False)(row)

    assert value["c"] == 7
    assert written(avro(pairs), value) == row
