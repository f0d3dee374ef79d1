"""The JSON schema of a type in descriptions: msgspec's schema, with times and fields marked.

msgspec writes ``"format": "date-time"`` only for a required time zone; a plain ``datetime`` is just
a text in its schema, but readers without the class need to know that it is a time. And it does not
name the fields that are written as an array, nor keep the order of an object's fields, which
comparisons need to recognize a reorder.

A JSON schema does not contain everything that decides what the bytes mean: that 2 is the member
``PAID`` of an enum, that ``user_id`` is written as ``userId``, that a field is omitted while it has
its default. This is the *meaning* of a schema. A description keeps it in a separate part, by JSON
pointers into the schema, so the schema remains one that a registry and Spark understand, and an
earlier version of logstate ignores the meaning. `with_meaning` combines both for a comparison.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

_OBJECTS = (
    inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType,
)  # fmt: skip
#: logstate's keyword of an array's schema: the names of the fields of its items, in order
NAMES_OF_ITEMS = "namesOfItems"
#: logstate's keyword of an object's schema: its fields in the order in which they are written, if
#: some have defaults; without defaults, ``required`` has this order
ORDER_OF_FIELDS = "orderOfFields"
#: part of a description: JSON pointer into its schema -> keywords that belong there
MEANING = "meaning"
#: of an enum: pairs of a value and one of its names; a value with an alias has several pairs
MEMBERS = "members"
#: of a class: name of a field in JSON -> name of the attribute, where they differ
ATTRIBUTES = "attributes"
#: of a class: the fields that are omitted while they have their default
OMITTED = "omitted"
#: of a class: the fields whose default is ``msgspec.UNSET``, which is never written
UNSET = "unset"
#: holds the keywords of the meaning while a schema is built; no field has this name
_MEANT = "logstate:meaning"
Schema = Mapping[str, Any]
#: a code in the bytes (a value of an enum, a position in an array, a tag) -> its names. A code that
#: keeps one of its names keeps its meaning
Names = Mapping[Any, frozenset[str]]
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


class SchemaWithMeaning(NamedTuple):
    """A JSON schema, and the meaning of the bytes that it does not contain."""

    schema: dict[str, Any]
    meaning: dict[str, dict[str, Any]]


def json_schema(type_: Any) -> SchemaWithMeaning:
    """Return the schema of a type. Raise TypeError for a type that has none.

    >>> from datetime import datetime
    >>> json_schema(list[datetime]).schema
    {'type': 'array', 'items': {'type': 'string', 'format': 'date-time'}}
    >>> class Size(enum.Enum):
    ...     SMALL = 1
    ...     LARGE = 2
    >>> json_schema(Size).meaning
    {'/$defs/Size': {'members': [[1, 'SMALL'], [2, 'LARGE']]}}
    """
    schema = msgspec.json.schema(type_)
    kind = inspect.type_info(type_)
    definitions = schema.get("$defs", {})
    _mark(schema, kind, definitions, set())
    if any("prefixItems" in one for one in definitions.values()):
        _name_items(definitions, kind)
    for definition in definitions.values():
        fields = list(definition.get("properties", ()))
        if len(fields) > max(1, len(definition.get("required", ()))):
            definition[ORDER_OF_FIELDS] = fields
    for name, cls in _defined(definitions, kind):
        note_meaning(definitions[name], **_meaning_of(cls))
    return meaning_apart(schema)


def described_type(type_: Any) -> dict[str, Any]:
    """Return the description of JSON of a type; ``schema`` is None for a type without one."""
    try:
        schema, meaning = json_schema(type_)
    except TypeError:  # such a type can still be decoded
        return {"format": "json", "schema": None}
    return {"format": "json", "schema": schema, MEANING: meaning}


def note_meaning(schema: dict[str, Any], **keywords: Any) -> None:
    """Add keywords of the meaning to a schema that is being built; empty ones are left out."""
    noted = {name: value for name, value in keywords.items() if value}
    if noted:
        schema.setdefault(_MEANT, {}).update(noted)


def meaning_apart(schema: dict[str, Any]) -> SchemaWithMeaning:
    """Split a schema that contains its meaning into schema and meaning."""
    meaning: dict[str, dict[str, Any]] = {}

    def bare(side: Any, place: str) -> Any:
        if isinstance(side, list):
            return [bare(one, f"{place}/{number}") for number, one in enumerate(side)]
        if not isinstance(side, dict):
            return side
        if _MEANT in side:
            meaning[place] = side[_MEANT]
        return {
            name: bare(one, f"{place}/{_escaped(name)}")
            for name, one in side.items()
            if name != _MEANT
        }

    return SchemaWithMeaning(bare(schema, ""), meaning)


def with_meaning(schema: Any, meaning: Mapping[str, Mapping[str, Any]], place: str = "") -> Any:
    """Return the schema with the keywords of its meaning in it.

    >>> with_meaning({"items": {"enum": [1]}}, {"/items": {"members": [[1, "ON"]]}})
    {'items': {'members': [[1, 'ON']], 'enum': [1]}}
    """
    if not meaning:
        return schema
    if isinstance(schema, list):
        return [with_meaning(one, meaning, f"{place}/{n}") for n, one in enumerate(schema)]
    if not isinstance(schema, Mapping):
        return schema
    joined = {
        name: with_meaning(one, meaning, f"{place}/{_escaped(name)}")
        for name, one in schema.items()
    }
    return {**meaning.get(place, {}), **joined}


def members_of(cls: type[enum.Enum]) -> list[list[Any]]:
    """Return the values of an enum with their names and aliases."""
    return [
        [msgspec.to_builtins(one.value, str_keys=True), name]
        for name, one in cls.__members__.items()
    ]


def _escaped(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _meaning_of(kind: Any) -> dict[str, Any]:
    if isinstance(kind, inspect.EnumType):
        return {MEMBERS: members_of(kind.cls)}
    fields = kind.fields
    config = getattr(kind.cls, "__struct_config__", None)
    omits = config is not None and config.omit_defaults and not config.array_like
    return {
        ATTRIBUTES: {one.encode_name: one.name for one in fields if one.encode_name != one.name},
        OMITTED: [one.encode_name for one in fields if omits and not one.required],
        UNSET: _fields_with_unset(kind),
    }


def _fields_with_unset(kind: Any) -> list[str]:
    """Return fields with the default UNSET, which msgspec shows as optional without a default."""
    if isinstance(kind, inspect.TypedDictType | inspect.NamedTupleType):
        return []
    nothing = inspect.NODEFAULT if hasattr(inspect, "NODEFAULT") else msgspec.NODEFAULT
    return [
        one.encode_name
        for one in kind.fields
        if not one.required and one.default is nothing and one.default_factory is nothing
    ]


def _defined(definitions: Mapping[str, Any], kind: inspect.Type) -> Iterable[tuple[str, Any]]:
    """Return the definitions of a schema with their classes, named as msgspec names them."""
    for part in parts_of(kind):
        if not isinstance(part, (*_OBJECTS, inspect.EnumType)):
            continue
        cls: Any = part.cls
        origin = getattr(cls, "__origin__", cls)
        name = origin.__name__
        if origin is not cls:
            arguments = (
                one.__name__ if isinstance(one, type) else repr(one) for one in cls.__args__
            )
            name = f"{name}[{', '.join(arguments)}]"
        for text in (name, f"{origin.__module__}.{origin.__qualname__}"):
            found = re.sub(r"[^a-zA-Z0-9.\-_]", "_", text)
            if found in definitions:
                yield found, part
                break


def without_names(schema: Any) -> Any:
    """Return the schema without logstate's own keywords."""
    if isinstance(schema, dict):
        return {
            name: without_names(one)
            for name, one in schema.items()
            if name not in (NAMES_OF_ITEMS, ORDER_OF_FIELDS) or not isinstance(one, list)
        }
    return [without_names(one) for one in schema] if isinstance(schema, list) else schema


def _name_items(definitions: dict[str, Any], kind: inspect.Type) -> None:
    """Add the fields of every class that is written as an array, if its name identifies it."""
    found: dict[str, list[list[str]]] = {}
    for part in parts_of(kind):
        if isinstance(part, inspect.NamedTupleType) or getattr(part, "array_like", False):
            fields = [field.name for field in part.fields]
            named = found.setdefault(getattr(part.cls, "__origin__", part.cls).__name__, [])
            if fields not in named:
                named.append(fields)
    for definition in definitions.values():
        named = found.get(definition.get("title", "").partition("[")[0], [])
        if "prefixItems" in definition and len(named) == 1:
            definition[NAMES_OF_ITEMS] = named[0]


def parts_of(kind: Any) -> Iterator[Any]:
    """Yield a type as msgspec sees it, and every type inside it, each once."""
    seen: set[int] = set()
    waiting = [kind]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(getattr(part, name) for name in part.__struct_fields__)


def _members_among_keys(kind: inspect.DictType, definitions: dict[str, Any]) -> dict[str, str]:
    """Return the schema of keys that are enum members; msgspec describes only text keys."""
    keys = _defined(definitions, kind.key_type)
    enums = [name for name, key in keys if isinstance(key, inspect.EnumType)]
    return {"$ref": f"#/$defs/{enums[0]}"} if enums else {}


def _mark(schema: Any, kind: inspect.Type, definitions: dict[str, Any], seen: set[str]) -> None:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            _mark(definitions[name], kind, definitions, seen)
    elif isinstance(kind, inspect.Metadata):
        _mark(schema, kind.type, definitions, seen)
    elif isinstance(kind, inspect.DateTimeType):
        schema.setdefault("format", "date-time")
    elif isinstance(kind, _LISTS):
        _mark(schema.get("items"), kind.item_type, definitions, seen)
        if isinstance(kind, inspect.SetType | inspect.FrozenSetType):
            note_meaning(schema, uniqueItems=True)
    elif isinstance(kind, inspect.DictType):
        note_meaning(schema, propertyNames=_members_among_keys(kind, definitions))
        _mark(schema.get("additionalProperties"), kind.value_type, definitions, seen)
    elif isinstance(kind, _OBJECTS):
        properties = schema.get("properties", {})
        for field in kind.fields:
            _mark(properties.get(field.encode_name), field.type, definitions, seen)
    elif isinstance(kind, inspect.UnionType):
        # A union of several types besides None never becomes a column, so only one is considered.
        kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if len(kinds) == len(choices) == 1:
            _mark(choices[0], kinds[0], definitions, seen)


def names_of_members(enum: Schema) -> dict[str, frozenset[str]]:
    """Map the JSON value of each member to its names; empty if they are not known."""
    names: dict[str, frozenset[str]] = {}
    for value, name in enum.get(MEMBERS, ()):
        code = msgspec.json.encode(value).decode()
        names[code] = names.get(code, frozenset()) | {name}
    return names


def names_of_items(array: Schema) -> dict[int, frozenset[str]]:
    """Map the position of each field to its names in Python and in JSON."""
    written = {name: one for one, name in array.get(ATTRIBUTES, {}).items()}
    names = array.get(NAMES_OF_ITEMS, ())
    return {n: frozenset({name, written.get(name, name)}) for n, name in enumerate(names)}


def names_of_attributes(cls: Schema) -> dict[str, frozenset[str]]:
    """Map the JSON name of each field to the name of the attribute."""
    attributes = cls.get(ATTRIBUTES, {})
    return {name: frozenset({attributes.get(name, name)}) for name in cls.get("properties", ())}


def all_names(names: Names) -> frozenset[str]:
    """Return all names of one side."""
    return frozenset[str]().union(*names.values())


def differing_codes(before: Names, after: Names) -> list[Any]:
    """Return the codes that lost all of their names.

    >>> before = {1: frozenset({"NEW"}), 2: frozenset({"PAID"})}
    >>> differing_codes(before, {1: frozenset({"OPEN"}), 2: frozenset({"PAID"})})
    [1]
    """
    return [code for code in before if code in after and not before[code] & after[code]]


def moved_codes(before: Names, after: Names) -> list[Any]:
    """Return the codes that differ by more than a new name: a name has, or had, another code.

    >>> before = {1: frozenset({"NEW"}), 2: frozenset({"PAID"})}
    >>> moved_codes(before, {2: frozenset({"HELD"}), 3: frozenset({"PAID"})})
    [2]
    """
    earlier, later = all_names(before), all_names(after)
    return [
        code
        for code in differing_codes(before, after)
        if before[code] & later or after[code] & earlier
    ]
