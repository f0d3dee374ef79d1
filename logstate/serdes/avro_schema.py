"""What can be told about an Avro schema before the first record, without an Avro library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from logstate.contracts.errors import UNDECODABLE, SerdeError

Schema = Any  # A name, a dict or a list (a union), as in the specification.
Check = Callable[[Any, str], None]
T = TypeVar("T")

_INT32 = range(-(2**31), 2**31)
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def schema_and_text(schema: Schema) -> tuple[Schema, str]:
    """A schema given as JSON text, as a primitive's name or as Python data, in both forms.

    Text keeps its exact wording, so that it is found again in a registry that compares it.
    """
    if not isinstance(schema, str):
        return schema, msgspec.json.encode(schema).decode()
    if schema.strip() in _PRIMITIVES:
        return schema.strip(), f'"{schema.strip()}"'
    try:
        return msgspec.json.decode(schema), schema
    except UNDECODABLE as error:
        raise SerdeError(
            f"The Avro schema is not JSON: {error}. Give the text of the schema (for a file: "
            "path.read_text()), the name of a primitive type, or the schema as a dict."
        ) from error


class AvroWalk(ABC, Generic[T]):
    """Makes something of a schema, of its parts first; a subclass says what, of each kind.

    Names are resolved as the specification says. A record may contain itself: whoever makes one
    gets a function that goes on to its fields, and first says what its name stands for meanwhile.
    """

    def __init__(self) -> None:
        #: what names stand for
        self.named: dict[str, T] = {}

    @abstractmethod
    def leaf(self, schema: Mapping[str, Any]) -> T:
        """Of a primitive, an enum, a fixed."""

    @abstractmethod
    def record(self, name: str, fields: Callable[[], list[tuple[str, T]]]) -> T: ...
    @abstractmethod
    def array(self, item: T) -> T: ...
    @abstractmethod
    def map(self, value: T) -> T: ...
    @abstractmethod
    def union(self, branches: list[Schema], parts: list[T]) -> T: ...

    def unknown(self, name: str) -> T:
        """Of a name that was not defined before; another file may."""
        return self.leaf({"type": name})

    def logical(self, schema: Mapping[str, Any], as_kind: Callable[[], T]) -> T:
        """Of a schema with a logical type; by itself what its kind makes."""
        del schema
        return as_kind()

    def reference(self, name: str) -> T:
        """Of the full name of a type."""
        return self.named[name] if name in self.named else self.unknown(name)

    def of(self, schema: Schema, namespace: str = "") -> T:
        """What is made of a schema; ``namespace`` is that of the type around it."""
        if isinstance(schema, list):
            return self.union(schema, [self.of(branch, namespace) for branch in schema])
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self.leaf({"type": schema})
            inside = f"{namespace}.{schema}"
            return self.reference(inside if inside in self.named else schema)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind, namespace)
        name = _full_name(schema, namespace)

        def as_kind() -> T:
            return self._of_kind(kind, name, schema, namespace)

        made = self.logical(schema, as_kind) if "logicalType" in schema else as_kind()
        if name:
            self.named[name] = made
        return made

    def _of_kind(self, kind: str, name: str, schema: Mapping[str, Any], namespace: str) -> T:
        match kind:
            case "array":
                return self.array(self.of(schema["items"], namespace))
            case "map":
                return self.map(self.of(schema["values"], namespace))
            case "enum" | "fixed":
                return self.leaf(schema)
            case "record" | "error":
                inside, fields = name.rpartition(".")[0], schema["fields"]
                return self.record(
                    name, lambda: [(one["name"], self.of(one["type"], inside)) for one in fields]
                )
        return self.of(kind, namespace)


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if name and space and "." not in name else name


def self_contained(parsed: Schema, named: Mapping[str, Schema]) -> Schema:
    """A parsed schema in which no name stands for a type of another file any more.

    ``named`` has those types by their full names, parsed as well. Each is put where it is named
    first, as a schema in one file has it.

    >>> city = {"type": "record", "name": "a.City", "fields": [{"name": "id", "type": "long"}]}
    >>> self_contained(["null", "a.City"], {"a.City": city}) == ["null", city]
    True
    """
    return _with_types(parsed, named, set())


def _with_types(schema: Schema, named: Mapping[str, Schema], seen: set[str]) -> Schema:
    if isinstance(schema, list):
        return [_with_types(branch, named, seen) for branch in schema]
    if isinstance(schema, str):
        is_first = schema in named and schema not in seen
        return _with_types(named[schema], named, seen) if is_first else schema
    whole = {part: value for part, value in schema.items() if not part.startswith("__")}
    if "fields" in whole or whole["type"] in ("enum", "fixed"):
        seen.add(whole["name"])
    for part in ("items", "values"):
        if part in whole:
            whole[part] = _with_types(whole[part], named, seen)
    if "fields" in whole:
        whole["fields"] = [
            {**field, "type": _with_types(field["type"], named, seen)} for field in whole["fields"]
        ]
    return whole


def is_lossless(schema: Schema) -> bool:
    """Whether what is read back always equals what was written.

    A ``float`` keeps 32 of Python's 64 bits, and logical types may round to their unit, so objects
    of such schemas must be read back before they are used again.
    """
    for part in _parts(schema):
        if part == "float" or (isinstance(part, Mapping) and "logicalType" in part):
            return False
    return True


def is_recursive(parsed: Schema) -> bool:
    """Whether values of a parsed schema can be nested without end."""
    named = parsed.get("__named_schemas", {}) if isinstance(parsed, Mapping) else {}

    def visit(schema: Schema, above: frozenset[str]) -> bool:
        if isinstance(schema, str):
            return schema in above or (schema in named and visit(named[schema], above))
        if isinstance(schema, list):
            return any(visit(branch, above) for branch in schema)
        inside = above | {schema["name"]} if "name" in schema else above
        parts = [field["type"] for field in schema.get("fields", ())]
        parts += [schema[part] for part in ("items", "values") if part in schema]
        return any(visit(part, inside) for part in parts)

    return visit(parsed, frozenset())


def schema_name(schema: Schema) -> str:
    """How messages call a schema: the name of a named type, otherwise its kind."""
    if isinstance(schema, Mapping):
        return str(schema.get("name") or schema.get("type"))
    return " or ".join(map(schema_name, schema)) if isinstance(schema, list) else str(schema)


def int32_check(schema: Schema) -> Check | None:
    """A function that refuses values too large for the schema's ``int`` fields, if it has any.

    The fast writer would encode them as longs, which no other reader accepts. The function takes
    the value and a name for it. Unions other than "this or null" are left to the writer, which
    validates their branches itself.
    """
    return _Int32().of(schema)


class _Int32(AvroWalk["Check | None"]):
    def leaf(self, schema: Mapping[str, Any]) -> Check | None:
        return _check_int32 if schema["type"] == "int" else None

    def record(
        self, name: str, fields: Callable[[], list[tuple[str, Check | None]]]
    ) -> Check | None:
        return _record_check([(field, check) for field, check in fields() if check is not None])

    def array(self, item: Check | None) -> Check | None:
        return _item_check(item, lambda value: value)

    def map(self, value: Check | None) -> Check | None:
        return _item_check(value, lambda entries: entries.values())

    def union(self, branches: list[Schema], parts: list[Check | None]) -> Check | None:
        others = [part for branch, part in zip(branches, parts, strict=True) if branch != "null"]
        return _unless_none(others[0]) if len(others) == 1 else None

    def logical(
        self, schema: Mapping[str, Any], as_kind: Callable[[], Check | None]
    ) -> Check | None:
        return None if schema["type"] in _PRIMITIVES else as_kind()


def _check_int32(value: Any, name: str) -> None:
    if isinstance(value, int) and value not in _INT32:
        raise SerdeError(
            f"{name} does not fit its Avro type: an int has 32 bits and the value needs more. "
            'Declare the field as "long".'
        )


def _unless_none(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_optional(value: Any, name: str) -> None:
        if value is not None:
            check(value, name)

    return check_optional


def _record_check(checks: list[tuple[str, Check]]) -> Check | None:
    if not checks:
        return None

    def check_fields(value: Any, name: str) -> None:
        for field, check in checks:
            if field in value:
                check(value[field], f"{name}.{field}")

    return check_fields


def _item_check(check: Check | None, items: Callable[[Any], Any]) -> Check | None:
    if check is None:
        return None

    def check_items(value: Any, name: str) -> None:
        for item in items(value):
            check(item, f"{name}[]")

    return check_items


def _parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    if isinstance(schema, list):
        for branch in schema:
            yield from _parts(branch)
    elif isinstance(schema, Mapping):
        for field in schema.get("fields", ()):
            yield from _parts(field["type"])
        for inner in ("type", "items", "values"):
            if inner in schema:
                yield from _parts(schema[inner])
