"""Protobuf: classes that protoc generated, bare or through a schema registry.

Bare, the bytes are the message alone, and the class defines their meaning. With a registry they are
framed as Confluent's serializers do it::

    0x00 | 4 bytes schema id, big-endian | message indexes | message        written and read
    0x01 | 16 bytes schema GUID          | message indexes | message        read only

The indexes are the path to the message in its file (their count, then each index, as zigzag
varints; the single byte 0 means the first message). A record is read if its writer's message has
the name of the declared one, and no number has another meaning in it: this is checked once per
schema. Fields that the declared class does not have are kept in the message, and written again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from logstate.contracts.compatibility import Verdict
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.registry.client import registry_of
from logstate.registry.schema_ids import SchemaIds, Subjects
from logstate.registry.schema_registry import Import, ImportingRegistry, Registry
from logstate.serdes.protobuf_compatibility import protobuf_changes
from logstate.serdes.protobuf_schema import is_protobuf_message, message_schema

M = TypeVar("M")

_FRAMED = "It begins like a record framed with a schema id: is registry= missing?"
_OTHER = "Was it written with another message, or is it not Protobuf at all?"
_MAX_INDEXES = 32


class ProtobufSerde(Serde[M]):
    """Messages of a generated class.

    - ``message``: the class.
    - ``registry``: as for ``avro``: a URL, the settings of Confluent's client, or an object with
      the methods of ``logstate.registry.schema_registry.Registry`` (its schemas are compiled files
      in base64). None: the bare message.
    - ``renamed``: fields and enum values whose number kept its meaning under a new name, old name
      to new one; used when a topology is compared with its stored state.
    - ``auto_register``: whether writing may add the file, and those it imports, to the registry.

    Raises SerdeError for a class that is not a message. The callables raise SerdeError for other
    objects and for bytes that do not decode, RegistryError while the registry is unavailable.
    """

    def __init__(
        self,
        message: type[M],
        *,
        registry: str | Mapping[str, Any] | Registry | None = None,
        renamed: Mapping[str, str] | None = None,
        auto_register: bool = True,
    ) -> None:
        self.message = cast(Any, message)
        if not is_protobuf_message(message):
            raise SerdeError(
                f"{message!r} is not the class of a Protobuf message. Give the class, from the "
                "module that protoc wrote (..._pb2)."
            )
        self.name: str = self.message.DESCRIPTOR.full_name
        self.schema = message_schema(self.message.DESCRIPTOR)
        self.renamed = dict(renamed or {})
        self.auto_register = auto_register
        self.registry = None if registry is None else registry_of(registry, "PROTOBUF")
        self._subjects = Subjects(self._schema_id)
        #: header of a record -> the reason not to read it, empty if there is none
        self._problems: SchemaIds[bytes, str] = SchemaIds(self._problem_of)

    def serializer(self, topic: str, is_key: bool) -> Serializer[M]:
        message, to_bytes = self.message, self.message.SerializeToString
        # Equal keys must be equal bytes, and maps are unordered.
        options = {"deterministic": True} if is_key else {}
        prefix: bytes | None = b"" if self.registry is None else None

        def serialize(value: Any) -> bytes:
            nonlocal prefix
            if type(value) is not message:
                raise self._not_of(value)
            data: bytes = to_bytes(value, **options)
            if prefix is None:  # Connect to the registry only at the first record.
                prefix = self._prefix(topic, is_key)
            return prefix + data

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[M]:
        parse = self.message.FromString
        if self.registry is None:

            def deserialize_plain(data: bytes) -> Any:
                try:
                    return parse(data)
                except Exception as error:  # noqa: BLE001  its class depends on the parser
                    raise self._undecodable(data, error) from None

            return deserialize_plain
        problems = self._problems.found

        def deserialize(data: bytes) -> Any:
            # Nearly all messages are the first ones of their files.
            start = 6 if problems.get(data[:6]) == "" else self._start_of(data)
            try:
                return parse(data[start:])
            except Exception as error:  # noqa: BLE001  as above
                raise self._undecodable(data, error) from None

        return deserialize

    def register(self, topic: str, is_key: bool) -> int:
        """Register the schema for ``topic`` now instead of at the first record; return its id."""
        if self.registry is None:
            raise SerdeError("This Protobuf serde has no registry to register its schema in.")
        return self._subjects.bind(topic, is_key)

    def describe(self) -> dict[str, Any]:
        return {
            "format": "protobuf",
            "schema": self.schema,
            "framing": "none" if self.registry is None else "confluent",
            "registry": None if self.registry is None else self.registry.shown_url,
            "renamed": self.renamed,
        }

    def equality_key(self) -> Any:
        return self.message, self.registry, self.renamed, self.auto_register

    def __repr__(self) -> str:
        return f"<serde protobuf of {self.name}>"

    def _prefix(self, topic: str, is_key: bool) -> bytes:
        schema_id = self._subjects.bind(topic, is_key)
        indexes = message_indexes(self.message.DESCRIPTOR)
        return b"\0" + schema_id.to_bytes(4, "big") + encode_indexes(indexes)

    def _schema_id(self, subject: str) -> int:
        from logstate.serdes.protobuf_files import file_text

        registry, file = self.registry, self.message.DESCRIPTOR.file
        assert registry is not None
        imports = self._imports(registry, file)
        if imports:
            return self._bind(registry, subject, file, imports)[0]
        ask = registry.register if self.auto_register else registry.lookup
        return ask(subject, file_text(file))

    def _imports(self, registry: Registry, file: Any) -> list[Import]:
        """Register each file that this one imports, under its own name as its subject."""
        from logstate.serdes.protobuf_files import BUILT_IN

        imports = []
        for imported in file.dependencies:
            if not imported.name.startswith(BUILT_IN):
                inner = self._imports(registry, imported)
                _, version = self._bind(registry, imported.name, imported, inner)
                imports.append((imported.name, imported.name, version))
        return imports

    def _bind(
        self, registry: Registry, subject: str, file: Any, imports: list[Import]
    ) -> tuple[int, int]:
        from logstate.serdes.protobuf_files import file_text

        if not isinstance(registry, ImportingRegistry):
            raise ConfigError(
                f"The file of {self.name} imports others, and {type(registry).__name__} has no "
                "bind() to register them with. See logstate.registry.schema_registry."
            )
        text, may_register = file_text(file), self.auto_register
        return registry.bind(subject, text, imports, is_new_allowed=may_register)

    def _start_of(self, data: bytes) -> int:
        """Return where the message begins. Raise SerdeError if the record must not be read."""
        is_guid = data[:1] == b"\x01"
        if len(data) < 6 or data[0] > 1:
            raise SerdeError(
                f"{len(data)} bytes that do not begin with a schema id and message indexes: the "
                f"first byte is 0 before a 4-byte id, found {data[:1].hex() or 'nothing'}. Was the "
                "record written without a registry (then give the class alone), or as JSON?"
            )
        _, start = decode_indexes(data, 17 if is_guid else 5)
        problem = self._problems.get(data[:start])
        if problem:
            raise SerdeError(problem)
        return start

    def _problem_of(self, header: bytes) -> str:
        from logstate.serdes.protobuf_files import message_of

        assert self.registry is not None
        is_guid = header[0] == 1
        indexes, _ = decode_indexes(header, 17 if is_guid else 5)
        number = int.from_bytes(header[1:5], "big")
        schema_id = uuid.UUID(bytes=header[1:17]) if is_guid else number
        found = message_of(self.registry, self.registry.fetch(schema_id), indexes)
        name, schema = found
        if name != self.name:
            return (
                f"The record holds {name} (schema id {schema_id}), and {self.name} is declared. "
                "Declare that message, or read only topics of one message."
            )
        if schema is None:  # files are missing: numbers cannot be compared
            return ""
        changes = protobuf_changes(
            f"schema id {schema_id}", name, schema, self.schema, self.renamed,
            rows_name_their_message=True,
        )  # fmt: skip
        refused = [str(change) for change in changes if change.verdict is Verdict.REFUSED]
        return "; ".join(refused)

    def _not_of(self, value: object) -> SerdeError:
        return SerdeError(
            f"Found {type(value).__name__} where the serde protobuf({self.message.__name__}) takes "
            f"{self.message.__name__}. Return {self.message.__name__}(...) from the function that "
            "made the value, or declare the message it really returns."
        )

    def _undecodable(self, data: bytes, error: Exception) -> SerdeError:
        hint = _FRAMED if self.registry is None and data[:1] == b"\0" else _OTHER
        return SerdeError(
            f"{len(data)} bytes do not decode as Protobuf {self.name}: {type(error).__name__}: "
            f"{text_of(error)}. {hint}"
        )


def message_indexes(descriptor: Any) -> list[int]:
    """Return the path to a message in its file: the index of each message, outermost first."""
    indexes: list[int] = []
    outer = descriptor.containing_type
    while outer is not None:
        names = [one.full_name for one in outer.nested_types]
        indexes.insert(0, names.index(descriptor.full_name))
        descriptor, outer = outer, outer.containing_type
    names = [one.full_name for one in descriptor.file.message_types_by_name.values()]
    return [names.index(descriptor.full_name), *indexes]


def encode_indexes(indexes: list[int]) -> bytes:
    """Encode indexes for the header of a message.

    >>> encode_indexes([0]).hex(), encode_indexes([1, 0]).hex()
    ('00', '040200')
    """
    if indexes == [0]:
        return b"\0"
    return b"".join(_varint(number * 2) for number in (len(indexes), *indexes))


def decode_indexes(data: bytes, start: int) -> tuple[list[int], int]:
    """Return the indexes that begin at ``start``, and the position after them.

    >>> decode_indexes(bytes.fromhex("040200ff"), 0)
    ([1, 0], 3)
    """
    count, position = _number(data, start)
    if count == 0:
        return [0], position
    if not 0 < count <= _MAX_INDEXES:
        raise SerdeError(f"The bytes have {count} message indexes: they are not framed Protobuf.")
    indexes = []
    for _ in range(count):
        index, position = _number(data, position)
        indexes.append(index)
    return indexes, position


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    for end, byte in enumerate(data[position : position + 5], position + 1):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), end
    raise SerdeError("The message indexes in front of a framed Protobuf record do not end.")
