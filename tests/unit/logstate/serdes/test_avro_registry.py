import io
import itertools
import json
import typing
import uuid

import avro.io
import avro.schema
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logstate.contracts.errors import ConfigError, RegistryError, SerdeError
from logstate.registry.schema_ids import UnknownSchemaError
from logstate.registry.schema_registry import RegisteredSchema
from logstate.serdes import avro as avro_of
from logstate.serdes.avro import AvroSerde

V1 = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "user", "type": "string"}, {"name": "count", "type": "int"}],
}
V2 = {
    **V1,
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "count", "type": "long"},
        {"name": "page", "type": "string", "default": "unknown"},
    ],
}
UNRELATED = {"type": "record", "name": "Click", "fields": [{"name": "user", "type": "long"}]}

_names = itertools.count()


@pytest.fixture
def mock_url() -> str:
    return f"mock://test-{next(_names)}"


class FakeRegistry:
    """A registry that counts its requests and can be taken down."""

    shown_url = "fake://registry"

    def __init__(self) -> None:
        self.texts: dict[int | uuid.UUID, RegisteredSchema] = {}
        self.versions: dict[tuple[str, int], RegisteredSchema] = {}
        self.subjects: dict[str, int] = {}
        self.requests: list[str] = []
        self.is_down = False

    def add(self, schema_id: int | uuid.UUID, schema: object) -> None:
        self.texts[schema_id] = RegisteredSchema(json.dumps(schema))

    def register(self, subject: str, text: str) -> int:
        self._schema_to_write(f"register {subject}")
        self.texts[len(self.texts) + 1] = RegisteredSchema(text)
        self.subjects[subject] = len(self.texts)
        return len(self.texts)

    def lookup(self, subject: str, text: str) -> int:
        self._schema_to_write(f"lookup {subject}")
        known = self.subjects.get(subject)
        if known is None or self.texts[known].text != text:
            raise UnknownSchemaError("not found")
        return known

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        self._schema_to_write(f"latest {subject}")
        if subject not in self.subjects:
            raise UnknownSchemaError("not found")
        return self.subjects[subject], self.texts[self.subjects[subject]]

    def fetch(self, schema_id: int | uuid.UUID) -> RegisteredSchema:
        self._schema_to_write(f"fetch {schema_id}")
        if schema_id not in self.texts:
            raise UnknownSchemaError("not found")
        return self.texts[schema_id]

    def fetch_version(self, subject: str, version: int) -> RegisteredSchema:
        self._schema_to_write(f"fetch {subject} {version}")
        return self.versions[subject, version]

    def _schema_to_write(self, request: str) -> None:
        self.requests.append(request)
        if self.is_down:
            raise RegistryError("down")


def encode(serde: AvroSerde[typing.Any], value: object, topic: str = "clicks") -> bytes:
    return serde.serializer(topic, is_key=False)(value)


def decode(serde: AvroSerde[typing.Any], data: bytes, topic: str = "clicks") -> object:
    return serde.deserializer(topic, is_key=False)(data)


def apache_body(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    writer = avro.io.DatumWriter(avro.schema.parse(json.dumps(schema)))
    writer.write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def test_a_record_carries_the_id_of_its_schema(mock_url: str) -> None:
    serde = avro_of(V1, registry=mock_url)
    data = encode(serde, {"user": "ada", "count": 3})

    assert data == b"\x00\x00\x00\x00\x01" + apache_body(V1, {"user": "ada", "count": 3})
    assert decode(serde, data) == {"user": "ada", "count": 3}


def test_confluents_own_deserializer_reads_what_is_written(mock_url: str) -> None:
    fake = FakeRegistry()
    data = encode(avro_of(V1, registry=fake), {"user": "ada", "count": 3})
    client = SchemaRegistryClient.new_client({"url": mock_url})  # type: ignore[attr-defined]
    context = SerializationContext("clicks", MessageField.VALUE)
    # Registers under the same id in the client's mock: both registries are empty before.
    AvroSerializer(client, json.dumps(V1))({"user": "x", "count": 0}, context)

    assert AvroDeserializer(client)(data, context) == {"user": "ada", "count": 3}


def test_what_confluents_own_serializer_writes_is_read(mock_url: str) -> None:
    client = SchemaRegistryClient.new_client({"url": mock_url})  # type: ignore[attr-defined]
    context = SerializationContext("clicks", MessageField.VALUE)
    data = AvroSerializer(client, json.dumps(V1))({"user": "ada", "count": 3}, context)
    fake = FakeRegistry()
    fake.add(1, V1)

    assert decode(avro_of(V2, registry=fake), data) == {
        "user": "ada",
        "count": 3,
        "page": "unknown",
    }


def test_records_of_many_versions_are_read_as_the_declared_one(mock_url: str) -> None:
    old = avro_of(V1, registry=mock_url)
    new = avro_of(V2, registry=mock_url)
    log = [
        encode(old, {"user": "ada", "count": 1}),
        encode(new, {"user": "bob", "count": 2**40, "page": "home"}),
        encode(old, {"user": "cyd", "count": 3}),
    ]

    assert [decode(new, data) for data in log] == [
        {"user": "ada", "count": 1, "page": "unknown"},
        {"user": "bob", "count": 2**40, "page": "home"},
        {"user": "cyd", "count": 3, "page": "unknown"},
    ]


def test_a_removed_field_is_left_out(mock_url: str) -> None:
    only_user = {**V1, "fields": V1["fields"][:1]}
    data = encode(avro_of(V2, registry=mock_url), {"user": "ada", "count": 1, "page": "home"})

    assert decode(avro_of(only_user, registry=mock_url), data) == {"user": "ada"}


def test_a_schema_that_cannot_be_resolved_is_the_records_error(mock_url: str) -> None:
    data = encode(avro_of(V1, registry=mock_url), {"user": "ada", "count": 1})

    with pytest.raises(SerdeError, match="written with schema id 1"):
        decode(avro_of(UNRELATED, registry=mock_url), data)


def test_keys_and_values_have_subjects_of_their_own() -> None:
    registry = FakeRegistry()
    serde = avro_of(V1, registry=registry)
    value = {"user": "ada", "count": 1}
    serde.serializer("clicks", is_key=True)(value)
    serde.serializer("clicks", is_key=False)(value)

    assert registry.requests == ["register clicks-key", "register clicks-value"]


def test_the_schema_is_registered_at_the_first_record_and_once() -> None:
    registry = FakeRegistry()
    serde = avro_of(V1, registry=registry)
    one, two = serde.serializer("clicks", False), serde.serializer("clicks", False)
    assert registry.requests == []

    for serialize in (one, two, one):
        serialize({"user": "ada", "count": 1})

    assert registry.requests == ["register clicks-value"]


def test_the_schema_can_be_registered_ahead() -> None:
    registry = FakeRegistry()
    serde = avro_of(V1, registry=registry)

    assert serde.register("clicks", is_key=False) == 1
    encode(serde, {"user": "ada", "count": 1})
    assert registry.requests == ["register clicks-value"]


def test_a_schema_that_must_exist_is_looked_up() -> None:
    registry = FakeRegistry()
    encode(avro_of(V1, registry=registry), {"user": "ada", "count": 1})
    strict = avro_of(V1, registry=registry, auto_register=False)

    assert encode(strict, {"user": "ada", "count": 1})[:5] == b"\x00\x00\x00\x00\x01"
    with pytest.raises(RegistryError, match=r"under the subject 'views-value'.*auto_register"):
        encode(strict, {"user": "ada", "count": 1}, topic="views")


def test_without_a_schema_one_has_to_be_there_and_the_error_says_so(mock_url: str) -> None:
    free = avro_of(registry=mock_url)
    with pytest.raises(RegistryError, match="under the subject 'nowhere-value'") as caught:
        encode(free, {"user": "ada", "count": 1}, topic="nowhere")

    assert "Give the schema, avro(schema, registry=...)" in str(caught.value)
    assert "auto_register" not in str(caught.value)


def test_without_a_schema_the_registry_decides(mock_url: str) -> None:
    encode(avro_of(V1, registry=mock_url), {"user": "ada", "count": 1})
    free = avro_of(registry=mock_url)
    data = encode(free, {"user": "bob", "count": 2})

    assert decode(free, data) == {"user": "bob", "count": 2}
    assert free.describe()["schema"] is None


def test_a_guid_in_front_of_the_body_is_understood() -> None:
    registry, guid = FakeRegistry(), uuid.UUID(int=7)
    registry.add(guid, V1)
    data = b"\x01" + guid.bytes + apache_body(V1, {"user": "ada", "count": 1})

    assert decode(avro_of(V1, registry=registry), data) == {"user": "ada", "count": 1}


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x00", b'{"user":"ada"}', b"\x06ada\x02", b"\x01" * 16]
)
def test_bytes_without_a_schema_id_are_refused(data: bytes) -> None:
    with pytest.raises(SerdeError, match="do not begin with a schema id"):
        decode(avro_of(V1, registry=FakeRegistry()), data)


def test_an_unknown_id_is_asked_for_once() -> None:
    registry = FakeRegistry()
    deserialize = avro_of(V1, registry=registry).deserializer("clicks", False)

    for _ in range(3):
        with pytest.raises(SerdeError, match="not found"):
            deserialize(b"\x00\x00\x00\x00\x09rest")

    assert registry.requests == ["fetch 9"]


def test_a_registry_that_is_down_is_no_fault_of_the_record_and_asked_again() -> None:
    registry = FakeRegistry()
    registry.add(1, V1)
    registry.is_down = True
    serde = avro_of(V1, registry=registry)
    data = b"\x00\x00\x00\x00\x01" + apache_body(V1, {"user": "ada", "count": 1})

    with pytest.raises(RegistryError) as caught:
        decode(serde, data)
    assert not isinstance(caught.value, SerdeError)

    registry.is_down = False
    assert decode(serde, data) == {"user": "ada", "count": 1}


def test_a_registry_that_is_not_there_is_named_without_its_password() -> None:
    config = {"url": "http://me:hunter2@127.0.0.1:9", "max.retries": 0}
    serde = avro_of(V1, registry=config)

    with pytest.raises(
        RegistryError, match=r"http://127\.0\.0\.1:9 could not be reached"
    ) as caught:
        encode(serde, {"user": "ada", "count": 1})
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in json.dumps(serde.describe())


def test_schemas_that_refer_to_others_are_put_together() -> None:
    user = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
    visit = {"type": "record", "name": "Visit", "fields": [{"name": "by", "type": "User"}]}
    registry = FakeRegistry()
    registry.versions["user-value", 1] = RegisteredSchema(json.dumps(user))
    registry.texts[1] = RegisteredSchema(json.dumps(visit), (("User", "user-value", 1),))
    data = b"\x00\x00\x00\x00\x01" + b"\x0e"

    assert decode(avro_of(registry=registry), data) == {"by": {"id": 7}}


USER = {
    "type": "record",
    "name": "shop.User",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "size", "type": {"type": "enum", "name": "shop.Size", "symbols": ["S", "M"]}},
    ],
}
PAID = {"type": "record", "name": "shop.Paid", "fields": [{"name": "by", "type": "shop.User"}]}
ADA = {"id": 7, "size": "M"}


def _shop(schema: object) -> FakeRegistry:
    """A registry whose newest schema names types that other files define."""
    registry = FakeRegistry()
    user, paid = ("shop.User", "user", 1), ("shop.Paid", "paid", 1)
    registry.versions["user", 1] = RegisteredSchema(json.dumps(USER))
    registry.versions["paid", 1] = RegisteredSchema(json.dumps(PAID), (user,))
    registry.texts[1] = RegisteredSchema(json.dumps(schema), (user, paid))
    registry.subjects["clicks-value"] = 1
    return registry


#: a schema that consists of names, or has them inside, and a value of it
NAMING: dict[str, tuple[object, object]] = {
    "a name": ("shop.User", ADA),
    "one of several events": (["shop.User", "shop.Paid"], {"by": ADA}),
    "the other event": (["shop.Paid", "shop.User"], ADA),
    "an optional one": (["null", "shop.User"], ADA),
    "an array": ({"type": "array", "items": "shop.Paid"}, [{"by": ADA}]),
    "a map": ({"type": "map", "values": "shop.User"}, {"a": ADA}),
    "an enum of theirs": ({"type": "array", "items": "shop.Size"}, ["M", "S"]),
    "an array before the name": ([{"type": "array", "items": "shop.User"}, "shop.User"], [ADA]),
}


@pytest.mark.parametrize("case", NAMING)
def test_a_schema_may_consist_of_references(case: str) -> None:
    schema, value = NAMING[case]
    serde = avro_of(registry=_shop(schema))

    assert decode(serde, encode(serde, value)) == value


@pytest.mark.parametrize("case", [case for case in NAMING if case != "an enum of theirs"])
def test_values_of_referenced_types_are_looked_at_too(case: str) -> None:
    schema, value = NAMING[case]
    wrong = json.loads(json.dumps(value).replace("7", "2.9"))

    with pytest.raises(SerdeError, match="expected"):
        encode(avro_of(registry=_shop(schema)), wrong)


def test_schemas_that_refer_to_each_other_end() -> None:
    registry = FakeRegistry()
    circle = RegisteredSchema(json.dumps("User"), (("User", "a", 1),))
    registry.versions["a", 1] = circle
    registry.texts[1] = circle

    with pytest.raises(SerdeError):
        decode(avro_of(registry=registry), b"\x00\x00\x00\x00\x01\x00")


@pytest.mark.parametrize("registry", ["localhost:8081", "", {}, {"url": None}])
def test_a_registry_without_a_url_is_refused_when_declared(registry: typing.Any) -> None:
    with pytest.raises(ConfigError, match="no usable 'url'"):
        avro_of(V1, registry=registry)
