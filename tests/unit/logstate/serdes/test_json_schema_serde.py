"""JSON framed by a registry, with Confluent's own serializers as the measure."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import BaseModel

from logstate import DeserializationError, SerdeError, StreamsBuilder, UpgradeError
from logstate.contracts.errors import RegistryError
from logstate.registry.client import registry_of
from logstate.serdes import json_schema_of
from logstate.testing import TopologyTestDriver

_names = itertools.count()
VALUE = SerializationContext("orders", MessageField.VALUE)
TOPIC_NAMES = {"subject.name.strategy.type": "TOPIC"}


class Order(msgspec.Struct, frozen=True):
    customer: str
    amount: float = 0.0


@dataclass
class Plain:
    customer: str


class Model(BaseModel):
    customer: str


@pytest.fixture
def url() -> str:
    return f"mock://json-{next(_names)}"


def client(url: str) -> Any:
    registry: Any = registry_of(url, "JSON")
    return registry._client


def ours(value: Any, url: str, **options: Any) -> bytes:
    data: bytes = json_schema_of(type(value), registry=url, **options).serializer("orders", False)(
        value
    )
    return data


def read(type_: Any, url: str, data: bytes) -> Any:
    return json_schema_of(type_, registry=url).deserializer("orders", False)(data)


@pytest.mark.parametrize("value", [Order("ada", 1.5), Plain("ada"), Model(customer="ada")])
def test_confluents_deserializer_reads_what_is_written_and_the_other_way_round(
    value: Any, url: str
) -> None:
    data = ours(value, url)
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert read(type(value), url, data) == value
    plain = msgspec.json.decode(data[5:])
    text = client(url).get_schema(1).schema_str
    theirs = JSONDeserializer(text, schema_registry_client=client(url), conf=TOPIC_NAMES)
    assert theirs(data, VALUE) == plain
    titled = msgspec.json.encode({"title": "Order", **msgspec.json.decode(text)}).decode()
    written = JSONSerializer(titled, client(url), conf=TOPIC_NAMES)(plain, VALUE)
    assert written is not None
    assert read(type(value), url, written) == value


def test_a_guid_in_front_of_a_record_is_read_too(url: str) -> None:
    data = b"\x01" + uuid.UUID(int=7).bytes + b'{"customer":"ada"}'
    assert read(Order, url, data) == Order("ada")


def test_the_schema_of_others_is_registered_as_it_is(url: str) -> None:
    text = '{"type":"object","title":"Theirs"}'
    ours(Order("ada"), url, schema=text)
    assert client(url).get_schema(1).schema_str == text
    assert ours(Order("bob"), url, schema=text, auto_register=False)[:5] == b"\0\0\0\0\x01"
    with pytest.raises(RegistryError, match="allow auto_register=True"):
        ours(Order("bob"), url, auto_register=False)


def test_what_has_no_schema_is_refused(url: str) -> None:
    for shapeless in (dict, str):
        with pytest.raises(SerdeError, match="has no JSON schema to register"):
            json_schema_of(shapeless, registry=url)


def test_bytes_without_a_frame_are_an_error_with_their_place(url: str) -> None:
    for data, reason in [(b'{"customer":"ada"}', "schema id"), (b"\0\0\0\0\x01{}", "customer")]:
        builder = StreamsBuilder()
        builder.stream("in", value=json_schema_of(Order, registry=url)).to("out")
        refused = pytest.raises(DeserializationError, match="'in', partition 0, offset 0")
        with TopologyTestDriver(builder.build()) as driver, refused as caught:
            driver.pipe_raw("in", b"k", data, 1)
        assert reason in str(caught.value)


class Since(msgspec.Struct, frozen=True):
    customer: str
    since: str = "ever"


class Needed(msgspec.Struct, frozen=True):
    customer: str
    where: str


def test_rows_that_are_there_are_read_with_fields_added_and_gone(tmp_path: Path, url: str) -> None:
    def driver(type_: Any, registry: str = url) -> TopologyTestDriver:
        builder = StreamsBuilder()
        value = json_schema_of(type_, registry=registry)
        builder.table("in", key=str, value=value, store="spent")
        return TopologyTestDriver(builder.build(), application_id="shop", state_dir=tmp_path)

    with driver(Order) as first:
        first.pipe("in", "ada", Order("ada", 3))
    with driver(Since) as second:
        assert second.store("spent").get("ada").value == Since("ada", "ever")
    with pytest.raises(UpgradeError, match=r"value\.where"):
        driver(Needed)
    with driver(Since, "mock://the-same-elsewhere") as third:
        assert third.store("spent").get("ada").value == Since("ada")
