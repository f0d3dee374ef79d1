"""Classes of Protobuf as protoc would generate them, without protoc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

Types = descriptor_pb2.FieldDescriptorProto
Files = descriptor_pb2.FileDescriptorProto


def field(message: Any, number: int, name: str, kind: str, **options: Any) -> Any:
    """``kind`` is a scalar's name, or that of a message or an enum with a leading dot."""
    added = message.field.add(name=name, number=number, label=1)
    if options.pop("repeated", False):
        added.label = 3
    if kind.startswith("."):
        added.type_name = kind
        added.type = Types.TYPE_ENUM if options.pop("enum", False) else Types.TYPE_MESSAGE
    else:
        added.type = Types.Type.Value(f"TYPE_{kind.upper()}")
    for option, value in options.items():
        setattr(added, option, value)
    return added


def classes(
    *fill: Callable[[Any], None], syntax: str = "proto3", package: str = "shop"
) -> dict[str, Any]:
    """The classes of the messages of some files, by name; a later file may import earlier ones."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    found: dict[str, Any] = {}
    for number, one in enumerate(fill):
        file = Files(name=f"shop{number}.proto", package=package, syntax=syntax)
        one(file)
        pool.Add(file)
        for name in pool.FindFileByName(file.name).message_types_by_name:
            found[name] = message_factory.GetMessageClass(
                pool.FindMessageTypeByName(f"{package}.{name}")
            )
    return found


def _click(file: Any) -> None:
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="WEB", number=0)
    kind.value.add(name="SHOP", number=1)
    first = file.message_type.add(name="Other")
    field(first, 1, "text", "string")
    click = file.message_type.add(name="Click")
    field(click, 1, "user", "string")
    field(click, 2, "count", "int64")
    field(click, 3, "tags", "string", repeated=True)
    field(click, 4, "kind", ".shop.Kind", enum=True)
    field(click, 5, "at", ".google.protobuf.Timestamp")
    field(click, 6, "inner", ".shop.Click")
    click.oneof_decl.add(name="_note")
    field(click, 7, "note", "string", oneof_index=0, proto3_optional=True)
    entry = click.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    field(entry, 1, "key", "string")
    field(entry, 2, "value", "double")
    field(click, 8, "prices", ".shop.Click.PricesEntry", repeated=True)
    item = click.nested_type.add(name="Item")
    field(item, 1, "sku", "bytes")
    field(click, 9, "items", ".shop.Click.Item", repeated=True)


SHOP = classes(_click)
Click: Any = SHOP["Click"]
Other: Any = SHOP["Other"]
Item: Any = Click.Item


def total(
    *fields: tuple[int, str, str], syntax: str = "proto3", name: str = "Total", **options: Any
) -> Any:
    """A message of these fields: number, name, type."""

    def fill(file: Any) -> None:
        message = file.message_type.add(name=name)
        for number, field_name, kind in fields:
            field(message, number, field_name, kind, **options)

    return classes(fill, syntax=syntax)[name]
