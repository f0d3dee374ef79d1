"""Compiled Protobuf files in a schema registry, and the messages that they describe.

The only module that imports Protobuf itself. Generated classes suffice for reading and writing;
descriptors are needed for schemas of other programs, and for readers without the classes.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logstate.registry.schema_ids import UnknownSchemaError
from logstate.registry.schema_registry import RegisteredSchema, Registry
from logstate.serdes.protobuf_schema import TYPES, message_schema

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Protobuf needs its package: pip install 'logstate[protobuf]'.") from error

#: files that are part of every Protobuf installation and are never registered
BUILT_IN = ("confluent/", "google/protobuf/", "google/type/")
_NUMBERS = {name: number for number, name in TYPES.items()}


def file_text(file: Any) -> str:
    """Return a file as registries store it: its descriptor, in base64."""
    return base64.b64encode(file.serialized_pb).decode("ascii")


def message_from_json(message: Any, data: Any) -> Any:
    """Return a message of a generated class from JSON data; raises json_format.ParseError."""
    return json_format.ParseDict(data, message())


def message_of(
    registry: Registry, registered: RegisteredSchema, indexes: Sequence[int]
) -> tuple[str, dict[str, Any] | None]:
    """Return the name of the message at the indexes, and its schema.

    The schema is None if a file that it imports is not available. Raises UnknownSchemaError
    for a schema that is not a compiled file, and for indexes without a message.
    """
    file = _parsed(registered.text)
    name = _name_at(file, indexes)
    pool = descriptor_pool.DescriptorPool()
    try:
        for imported in _imports(registry, registered, file, set()):
            pool.Add(imported)
        file.name = file.name or "default"
        pool.Add(file)
        return name, message_schema(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError, ImportError):  # a file whose imports are missing is refused
        return name, None


def message_class(schema: Mapping[str, Any]) -> Any:
    """Return a class for a message that is known by its schema only; enums are read as numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="described.proto", package="d", syntax="proto2")
    names = {name: f"M{number}" for number, name in enumerate(schema["messages"])}
    for name, message in schema["messages"].items():
        described = file.message_type.add(name=names[name])
        for number, field in message["fields"].items():
            _add_field(described, int(number), field, names)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"d.{names[schema['message']]}")
    return message_factory.GetMessageClass(found)


def _add_field(
    message: Any, number: int, field: Mapping[str, Any], names: Mapping[str, str]
) -> None:
    added = message.field.add(name=f"f{number}", number=number, label=1)
    if field["type"] == "map":  # on the wire, a list of entries
        entry = message.nested_type.add(name=f"E{number}")
        _add_field(entry, 1, field["key"], names)
        _add_field(entry, 2, field["value"], names)
        added.label, added.type, added.type_name = 3, _NUMBERS["message"], entry.name
        return
    kind = "int32" if field["type"] == "enum" else field["type"]
    added.type = _NUMBERS[kind]
    added.label = 3 if field.get("repeated") else 1
    if kind in ("message", "group"):
        added.type_name = f".d.{names[field['of']]}"


def _parsed(text: str) -> Any:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception as error:  # of base64 and of the parser
        raise UnknownSchemaError(
            "The schema is not a compiled Protobuf file: the registry returned text that is not a "
            "descriptor in base64. Does it know format=serialized, and is the schema's type "
            "PROTOBUF?"
        ) from error


def _name_at(file: Any, indexes: Sequence[int]) -> str:
    found, names, messages = None, [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise UnknownSchemaError(
                f"The schema has no message at {list(indexes)}: {len(messages)} messages at the "
                "last level. Were the bytes written by a serializer of Protobuf?"
            )
        found = messages[index]
        names.append(found.name)
        messages = found.nested_type
    return ".".join(names)


def _imports(
    registry: Registry, registered: RegisteredSchema, file: Any, seen: set[str]
) -> Iterator[Any]:
    """Yield the files that a file imports, dependencies first."""
    references = {name: (subject, version) for name, subject, version in registered.references}
    for name in file.dependency:
        if name in seen:
            continue
        seen.add(name)
        if name in references:
            inner = registry.fetch_version(*references[name])
            imported = _parsed(inner.text)
            imported.name = name
        else:
            inner = RegisteredSchema("")
            imported = _installed(name)
        yield from _imports(registry, inner, imported, seen)
        yield imported


def _installed(name: str) -> Any:
    if not name.startswith(BUILT_IN):
        raise KeyError(name)
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file
