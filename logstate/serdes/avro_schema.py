"""Functions on Avro schemas that need no Avro library and no record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import UNDECODABLE, SerdeError

Schema = Any  # A name, a dict or a list (a union), as in the specification.
T = TypeVar("T")

_PARSED, _NAMED_TYPES = "__fastavro_parsed", "__named_schemas"  # keys of fastavro
_NAMED_KINDS = ("record", "error", "enum", "fixed")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def schema_and_text(schema: Schema) -> tuple[Schema, str]:
    """A schema given as JSON text, as a primitive's name or as Python data, in both forms.

    Text keeps its exact wording, so that it is found again in a registry that compares it.
    """
    if not isinstance(schema, str):
        return schema, msgspec.json.encode(schema).decode()
    if schema.strip() in PRIMITIVES:
        return schema.strip(), f'"{schema.strip()}"'
    try:
        return msgspec.json.decode(schema), schema
    except UNDECODABLE as error:
        raise SerdeError(
            f"The Avro schema is not JSON: {text_of(error)}."
            " Give the text of the schema (for a file: "
            "path.read_text()), the name of a primitive type, or the schema as a dict."
        ) from error


class AvroWalk(ABC, Generic[T]):
    """Walks a schema and computes a result from the results of its parts, by kind of type.

    Names are resolved as the specification says. A record may contain itself, so ``record`` gets a
    function that walks its fields, and first sets the result for its name in ``named``.
    """

    def __init__(self) -> None:
        #: full name -> result
        self.named: dict[str, T] = {}

    @abstractmethod
    def leaf(self, schema: Mapping[str, Any]) -> T:
        """Return the result for a primitive, an enum or a fixed."""

    @abstractmethod
    def record(self, name: str, fields: Callable[[], list[tuple[str, T]]]) -> T: ...
    @abstractmethod
    def array(self, item: T) -> T: ...
    @abstractmethod
    def map(self, value: T) -> T: ...
    @abstractmethod
    def union(self, branches: list[Schema], parts: list[T]) -> T: ...

    def unknown(self, name: str) -> T:
        """Return the result for a name without a definition; another file may define it."""
        return self.leaf({"type": name})

    def logical(self, schema: Mapping[str, Any], as_kind: Callable[[], T]) -> T:
        """Return the result for a schema with a logical type; by default that of its kind."""
        del schema
        return as_kind()

    def reference(self, name: str) -> T:
        """Return the result for the full name of a type."""
        return self.named[name] if name in self.named else self.unknown(name)

    def of(self, schema: Schema, namespace: str = "") -> T:
        """Return the result for a schema; ``namespace`` is that of the enclosing type."""
        if isinstance(schema, list):
            return self.union(schema, [self.of(branch, namespace) for branch in schema])
        if isinstance(schema, str):
            if schema in PRIMITIVES:
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
    """Return a parsed schema with no references to types of other files.

    ``named`` has those types by their full names, parsed as well. Each one is inserted at its first
    reference, as in a schema in one file.

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


class ParsedCopy:
    """A copy of a schema as fastavro parsed it, in which a subclass changes parts.

    Every dict is copied once, so a named type and the references to it stay the same object.
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def union(self, branches: list[Any]) -> list[Any]:
        """Return the copy of a union, given the copies of its branches."""
        return branches

    def changed(self, copy: dict[str, Any], original: Mapping[str, Any]) -> None:
        """Change the copy of a dict, whose parts are already copied."""

    def of_whole(self, schema: Schema) -> Schema:
        """Return the copy of a schema that a reader or writer gets."""
        copy = self.of(schema)
        if isinstance(copy, Mapping) and _PARSED not in copy:
            # The library marks only records as parsed. It parses an unmarked schema again at each
            # record, and refuses what is changed here.
            every = self._known.values()
            named = {one["name"]: one for one in every if one.get("type") in _NAMED_KINDS}
            copy = {**copy, _PARSED: True, _NAMED_TYPES: named}
        return copy

    def of(self, schema: Schema) -> Schema:
        """Return the copy of a part."""
        if id(schema) in self._known:
            return self._known[id(schema)]
        if isinstance(schema, list):
            return self.union([self.of(branch) for branch in schema])
        if not isinstance(schema, Mapping):
            return schema
        copy = self._known[id(schema)] = dict(schema)
        for part in ("type", "items", "values"):
            if part in copy:
                copy[part] = self.of(copy[part])
        if "fields" in copy:
            copy["fields"] = [self.of(field) for field in copy["fields"]]
        if _NAMED_TYPES in copy:
            named = copy[_NAMED_TYPES]
            copy[_NAMED_TYPES] = {name: self.of(part) for name, part in named.items()}
        self.changed(copy, schema)
        return copy


class NativeDefaults(ParsedCopy):
    """A copy whose defaults are values, as a reader returns them.

    A schema has defaults in JSON: bytes as a text of the code points 0 to 255, a decimal as such
    bytes, a date as its number of days. fastavro returns them unchanged, and the same list or dict
    for each record. ``read_leaf(schema, value)`` returns what is read of a value that was written
    without its logical type; ``branch_names``: records of a union as (name, dict). ``is_read``: for
    a reader, where each record gets its own list or dict; a writer takes only plain dicts.
    """

    def __init__(
        self,
        parsed: Schema,
        read_leaf: Callable[[Schema, Any], Any],
        *,
        branch_names: bool,
        is_read: bool,
    ) -> None:
        super().__init__()
        self._named = {
            part["name"]: part
            for part in parts_of_schema(parsed)
            if isinstance(part, Mapping) and part.get("type") in _NAMED_KINDS
        }
        self._read_leaf = read_leaf
        self._branch_names = branch_names
        self._is_read = is_read

    def changed(self, copy: dict[str, Any], original: Mapping[str, Any]) -> None:
        """Fill in defaults of fields; the default of an enum is a symbol, which stays."""
        for place, field in enumerate(original.get("fields", ())):
            if "default" in field:
                default = self._of_field(field)
                filled = {**copy["fields"][place], "default": default}
                if self._is_read and isinstance(default, dict | list | tuple | SerdeError):
                    filled = _FieldOfContainers(filled)
                if self._is_read or not isinstance(default, SerdeError):
                    copy["fields"][place] = filled

    def _of_field(self, field: Mapping[str, Any]) -> Any:
        try:
            return self.value_of(field["type"], field["default"])
        except (ValueError, TypeError, KeyError, SerdeError) as error:
            # Like the library, report a wrong default only when it is needed.
            return SerdeError(
                f"the default of the Avro field {field['name']!r} is not a value of its type"
                f" ({schema_name(field['type'])}): {text_of(error)}."
                " Correct the default in the schema"
            )

    def value_of(self, schema: Schema, default: Any) -> Any:
        """Return the value of a default in JSON. Raise ValueError if it does not have the type."""
        if isinstance(schema, list):
            return self._of_union(schema, default)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.value_of(kind, default)
        if kind in self._named and kind != schema.get("name"):
            return self.value_of(self._named[kind], default)
        if kind == "array" and isinstance(default, list):
            return [self.value_of(schema["items"], one) for one in default]
        if kind == "map" and isinstance(default, Mapping):
            return {name: self.value_of(schema["values"], one) for name, one in default.items()}
        if kind in ("record", "error") and isinstance(default, Mapping):
            return self._of_record(schema, default)
        value = _leaf_of(kind, schema, default)
        is_as_given = kind != "float" and "logicalType" not in schema
        return value if is_as_given else self._read_leaf(schema, value)

    def _of_record(self, schema: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = {}
        for field in schema["fields"]:
            given = default.get(field["name"], field.get("default", ...))
            if given is ...:
                raise ValueError(f"it has no {field['name']!r}")
            record[field["name"]] = self.value_of(field["type"], given)
        return record

    def _of_union(self, branches: list[Schema], default: Any) -> Any:
        """Return the value for the first branch that fits; before Avro 1.12, the first branch."""
        known = [
            self._named.get(one, {"type": one}) if isinstance(one, str) else one for one in branches
        ]
        records = [one for one in known if one["type"] in ("record", "error")]
        for branch in known:
            try:
                value = self.value_of(branch, default)
            except ValueError:
                continue
            is_named = self._branch_names and len(records) > 1 and branch in records
            return (branch["name"], value) if is_named else value
        raise ValueError("no branch of the union takes it")


class _FieldOfContainers(dict[str, Any]):
    """A field whose default is made again for each record, because users may change it."""

    def __getitem__(self, part: str) -> Any:
        value = super().__getitem__(part)
        if part != "default":
            return value
        if isinstance(value, SerdeError):
            raise value
        return _made_again(value)


def _made_again(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _made_again(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_made_again, value))
    return value


def _leaf_of(kind: str, schema: Mapping[str, Any], default: Any) -> Any:
    """Return the value of a scalar, an enum or a fixed, without its logical type."""
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    match kind:
        case "null" if default is None:
            return None
        case "boolean" if isinstance(default, bool):
            return default
        case "int" | "long" if is_number and default == int(default):
            return int(default)
        case "float" | "double" if is_number or default in ("NaN", "Infinity", "-Infinity"):
            return float(default)
        case "string" if isinstance(default, str):
            return default
        case "enum" if default in schema["symbols"]:
            return default
        case "bytes" | "fixed" if isinstance(default, str):
            value = default.encode("latin-1")
            if kind == "bytes" or len(value) == schema["size"]:
                return value
    raise ValueError(f"it is {type(default).__name__}, expected {kind}")


def is_lossless(schema: Schema) -> bool:
    """Return whether reading always returns a value equal to the written one.

    A ``float`` keeps 32 of Python's 64 bits, and logical types may round to their unit, so objects
    of such schemas must be read back before they are used again.
    """
    for part in parts_of_schema(schema):
        if part == "float" or (isinstance(part, Mapping) and "logicalType" in part):
            return False
    return True


def is_recursive(parsed: Schema) -> bool:
    """Return whether values of a parsed schema can be nested to any depth."""
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


def parts_of_schema(schema: Schema) -> Iterator[Schema]:
    """A schema, and every schema inside it."""
    yield schema
    if isinstance(schema, list):
        for branch in schema:
            yield from parts_of_schema(branch)
    elif isinstance(schema, Mapping):
        for field in schema.get("fields", ()):
            yield from parts_of_schema(field["type"])
        for inner in ("type", "items", "values"):
            if inner in schema:
                yield from parts_of_schema(schema[inner])
