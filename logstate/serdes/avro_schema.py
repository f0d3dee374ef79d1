"""What can be told about an Avro schema before the first record, without an Avro library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from logstate.contracts.errors import SerdeError

Schema = Any  # A name, a dict or a list (a union), as in the specification.
Check = Callable[[Any, str], None]

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
    except msgspec.DecodeError as error:
        raise SerdeError(
            f"The Avro schema is not JSON: {error}. Give the text of the schema (for a file: "
            "path.read_text()), the name of a primitive type, or the schema as a dict."
        ) from error


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
    if schema == "int":
        return _check_int32
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _unless_none(int32_check(others[0])) if len(others) == 1 else None
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if kind in ("record", "error"):
        checks = [(f["name"], int32_check(f["type"])) for f in schema["fields"]]
        return _record_check([(name, check) for name, check in checks if check is not None])
    if kind == "array":
        return _item_check(int32_check(schema["items"]), lambda value: value)
    if kind == "map":
        return _item_check(int32_check(schema["values"]), lambda value: value.values())
    return None if "logicalType" in schema else int32_check(kind)


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
