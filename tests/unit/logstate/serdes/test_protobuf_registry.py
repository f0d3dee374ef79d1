"""Protobuf framed by a registry, with Confluent's own serializers as the measure."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logstate.contracts.errors import RegistryError, SerdeError
from logstate.registry.client import registry_of
from logstate.serdes import protobuf
from logstate.serdes.protobuf_serde import decode_indexes, encode_indexes
from tests.unit.logstate.serdes.protobuf_messages import Click, Item, Other, classes, field, total

_names = itertools.count()
VALUE = SerializationContext("clicks", MessageField.VALUE)
TOPIC_NAMES = {"subject.name.strategy.type": "TOPIC"}


@pytest.fixture
def url() -> str:
    return f"mock://protobuf-{next(_names)}"


def client(url: str) -> Any:
    registry: Any = registry_of(url, "PROTOBUF")
    return registry._client


def theirs(message: Any, url: str, **settings: Any) -> bytes:
    options = {**TOPIC_NAMES, **settings}
    written = ProtobufSerializer(type(message), client(url), options)(message, VALUE)
    assert isinstance(written, bytes)
    return written


def ours(message: Any, url: str, **options: Any) -> bytes:
    serde = protobuf(type(message), registry=url, **options)
    data: bytes = serde.serializer("clicks", False)(message)
    return data


def read(message: Any, url: str, data: bytes) -> Any:
    return protobuf(message, registry=url).deserializer("clicks", False)(data)


@pytest.mark.parametrize(
    "message", [Other(text="first"), Click(user="ada", tags=["a"]), Item(sku=b"x"), Click()]
)
def test_bytes_are_those_of_confluents_serializer_and_either_reads_both(
    message: Any, url: str
) -> None:
    data = ours(message, url)
    assert theirs(message, url) == data
    assert read(type(message), url, data) == message
    their_reader = ProtobufDeserializer(type(message), TOPIC_NAMES, client(url))
    assert their_reader(data, VALUE) == message


@pytest.mark.parametrize("indexes", [[0], [1], [0, 0], [3, 2, 1], [64, 200], [0] * 32])
def test_the_way_to_a_message_is_read_as_it_was_written(indexes: list[int]) -> None:
    data = encode_indexes(indexes)
    assert decode_indexes(b"." + data + b"rest", 1) == (indexes, 1 + len(data))


def test_a_file_that_imports_another_is_registered_with_it(url: str) -> None:
    def outer(file: Any) -> None:
        file.dependency.append("shop0.proto")
        field(file.message_type.add(name="Order"), 1, "item", ".shop.Part")

    def inner(file: Any) -> None:
        field(file.message_type.add(name="Part"), 1, "sku", "string")

    order = classes(inner, outer)["Order"]
    data = ours(order(), url)
    assert theirs(order(), url) == data
    subjects = client(url).get_subjects()
    assert sorted(subjects) == ["clicks-value", "shop0.proto"]
    assert read(order, url, data) == order()


def test_a_record_of_another_message_is_refused_and_named(url: str) -> None:
    data = ours(Click(user="ada"), url)
    with pytest.raises(SerdeError, match=r"The record holds shop\.Click \(schema id 1\), and shop"):
        read(Other, url, data)


def test_a_number_that_means_something_else_to_the_writer_is_refused(url: str) -> None:
    written = ours(total((1, "sum", "int64"))(sum=3), url)
    with pytest.raises(SerdeError, match="string name = 1"):
        read(total((1, "name", "string")), url, written)
    assert read(total((1, "sum", "int64"), (2, "n", "int64")), url, written).n == 0


def test_what_has_no_frame_is_refused(url: str) -> None:
    for data in (b"", b"\n\x03ada", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\x80"):
        with pytest.raises(SerdeError, match="message indexes"):
            read(Click, url, data)
    with pytest.raises(SerdeError, match="they are not framed Protobuf"):
        read(Click, url, b"\x00\x00\x00\x00\x01\x7f")


def test_an_id_that_the_registry_does_not_know_is_asked_for_once(url: str) -> None:
    serde = protobuf(Click, registry=url)
    deserialize = serde.deserializer("clicks", False)
    for _ in range(2):
        with pytest.raises(SerdeError, match="could not find the schema with id 77"):
            deserialize(b"\x00\x00\x00\x00\x4d\x00abc")


def test_a_schema_that_is_no_compiled_file_is_refused(url: str) -> None:
    client(url).register_schema("text-value", Schema('syntax = "proto3";', "PROTOBUF"))
    with pytest.raises(SerdeError, match="not a compiled Protobuf file"):
        read(Click, url, b"\x00\x00\x00\x00\x01\x00")


def test_a_guid_in_front_of_a_record_is_read_too(url: str) -> None:
    data = ours(Click(user="ada"), url)
    guid = client(url).register_schema_full_response("clicks-value", client(url).get_schema(1)).guid
    framed = b"\x01" + uuid.UUID(guid).bytes + data[5:]
    assert read(Click, url, framed) == Click(user="ada")


def test_a_schema_must_be_there_if_it_may_not_be_registered(url: str) -> None:
    with pytest.raises(RegistryError, match="under the subject 'clicks-value'"):
        ours(Click(), url, auto_register=False)
    assert protobuf(Click, registry=url).register("clicks", False) == 1
    assert ours(Click(), url, auto_register=False)[:5] == b"\x00\x00\x00\x00\x01"


def test_the_description_names_the_registry_without_credentials() -> None:
    serde = protobuf(Click, registry="http://me:secret@registry:8081")
    described = serde.describe()
    assert described["registry"] == "http://registry:8081"
    assert described["framing"] == "confluent"
    assert "secret" not in repr(described)
