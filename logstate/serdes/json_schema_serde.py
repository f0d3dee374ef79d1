"""JSON through a schema registry: the JSON of the type's own serde after the id of its schema.

The frame is that of Confluent's serializers::

    0x00 | 4 bytes schema id, big-endian | JSON        written and read
    0x01 | 16 bytes schema GUID          | JSON        read only

JSON contains the names of its fields, so a reader does not need the writer's schema: the serde
calls the registry when the first record is written, and never for reading. The declared type checks
the value that is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.registry.client import registry_of
from logstate.registry.schema_ids import Subjects
from logstate.registry.schema_registry import Registry
from logstate.serdes.json_schema import MEANING, without_names

T = TypeVar("T")

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class JsonSchemaSerde(Serde[T]):
    """JSON of ``inner``, framed.

    - ``inner``: the serde of the type; its description has the schema.
    - ``registry``: as for ``avro``.
    - ``schema``: the text to register instead of the type's schema, for a subject whose schema was
      written by others. It is registered unchanged, and not compared with what the type writes.
    - ``auto_register``: whether writing may add the schema to the registry.

    Raises SerdeError for a type without a schema.
    """

    def __init__(
        self,
        inner: Serde[T],
        registry: str | Mapping[str, Any] | Registry,
        *,
        schema: str | None = None,
        auto_register: bool = True,
    ) -> None:
        self.inner = inner
        self.immutable = inner.immutable
        description = inner.describe()
        self.schema: Any = description.get("schema")
        self._meaning = description.get(MEANING)
        if description["format"] != "json" or not self.schema:
            raise SerdeError(
                f"{inner!r} has no JSON schema to register. Declare a type with fields: a "
                "msgspec.Struct, a dataclass, a class of attrs, a TypedDict or a pydantic model."
            )
        document = {"$schema": _DIALECT, **without_names(self.schema)}
        self.text = schema or msgspec.json.encode(document).decode()
        self.auto_register = auto_register
        self.registry = registry_of(registry, "JSON")
        ask = self.registry.register if auto_register else self.registry.lookup
        self._subjects = Subjects(lambda subject: ask(subject, self.text))

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        write = self.inner.serializer(topic, is_key)
        prefix: bytes | None = None

        def serialize(value: T) -> bytes:
            nonlocal prefix
            data = write(value)
            if prefix is None:  # Connect to the registry only at the first record.
                prefix = b"\0" + self.register(topic, is_key).to_bytes(4, "big")
            return prefix + data

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        read = self.inner.deserializer(topic, is_key)

        def deserialize(data: bytes) -> T:
            return read(data[5:] if data[:1] == b"\0" else data[frame_bytes(data) :])

        return deserialize

    def register(self, topic: str, is_key: bool) -> int:
        """Register the schema for ``topic`` now instead of at the first record; return its id."""
        return self._subjects.bind(topic, is_key)

    def describe(self) -> dict[str, Any]:
        return {
            "format": "json_schema",
            "schema": self.schema,
            "framing": "confluent",
            "registry": self.registry.shown_url,
            **({} if self._meaning is None else {MEANING: self._meaning}),
        }

    def equality_key(self) -> Any:
        return self.inner, self.registry, self.text, self.auto_register

    def __repr__(self) -> str:
        return f"<serde json_schema_of {self.inner!r}>"


def frame_bytes(data: bytes) -> int:
    """Return the length of the frame of framed JSON. Raise SerdeError if there is no frame.

    >>> frame_bytes(bytes(5) + b"{}")
    5
    """
    if data[:1] == b"\0":
        return 5
    if data[:1] == b"\1":
        return 17
    raise SerdeError(
        f"{len(data)} bytes that do not begin with a schema id: the first byte is 0 before a "
        f"4-byte id, found {data[:1].hex() or 'nothing'}. Was the record written without a "
        "registry (then declare the type alone), or with the id in a record header (not "
        "supported: let the producer put it in front of the value)?"
    )
