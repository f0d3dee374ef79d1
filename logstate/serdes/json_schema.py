"""The JSON schema of a type, as descriptions hold it: msgspec's, with times and fields marked.

msgspec says ``"format": "date-time"`` only where a time zone is demanded; of a ``datetime`` as such
it says no more than that it is a text. Readers without the class need to know. And it does not name
the fields that are written as an array, nor keep the order of an object's: with them a reorder can
be told from no change.

A JSON schema does not contain everything that decides what the bytes mean: that 2 is the member
``PAID`` of an enum, that ``user_id`` is written as ``userId``, that a field is omitted while it has
its default. This is the *meaning* of a schema. A description keeps it in a part of its own, by the
place in the schema (a JSON pointer), so the schema stays what a registry and Spark know, and an
earlier version of logstate does not see it. `with_meaning` puts both together for a comparison.
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
#: keyword of an array's schema, ours: the names of the fields that its items are, in their order
NAMES_OF_ITEMS = "namesOfItems"
#: keyword of an object's schema, ours: its fields in the order in which they are written, where
#: some have defaults; of those that have none ``required`` tells it
ORDER_OF_FIELDS = "orderOfFields"
#: part of a description: JSON pointer into its schema -> keywords that belong there
MEANING = "meaning"
#: of an enum: pairs of a value and a name that it has; a value with an alias has several
MEMBERS = "members"
#: of a class: name of a field in JSON -> name of the attribute, where they differ
ATTRIBUTES = "attributes"
#: of a class: the fields that are not written while they have their default
OMITTED = "omitted"
#: of a class: the fields whose default is ``msgspec.UNSET``, which is never written
UNSET = "unset"
#: holds the keywords of the meaning while a schema is made; no field has this name
_MEANT = "logstate:meaning"
Schema = Mapping[str, Any]
#: a code in the bytes (a value of an enum, a place in an array, a tag) -> the names that it has. A
#: code that keeps one of its names means what it meant
Names = Mapping[Any, frozenset[str]]
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


class MeantSchema(NamedTuple):
    """A JSON schema, and what it does not say about the bytes."""

    schema: dict[str, Any]
    meaning: dict[str, dict[str, Any]]


def json_schema(type_: Any) -> MeantSchema:
    """The schema of a type. Raises TypeError for a type that has none.

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
    """The description of JSON of a type; ``schema`` is None for a type without a JSON schema."""
    try:
        schema, meaning = json_schema(type_)
    except TypeError:  # decodable all the same
        return {"format": "json", "schema": None}
    return {"format": "json", "schema": schema, MEANING: meaning}


def note_meaning(schema: dict[str, Any], **keywords: Any) -> None:
    """Note keywords of the meaning in a schema that is being made; empty ones are left out."""
    noted = {name: told for name, told in keywords.items() if told}
    if noted:
        schema.setdefault(_MEANT, {}).update(noted)


def meaning_apart(schema: dict[str, Any]) -> MeantSchema:
    """Take the meaning out of a schema in which it was noted."""
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

    return MeantSchema(bare(schema, ""), meaning)


def with_meaning(schema: Any, meaning: Mapping[str, Mapping[str, Any]], place: str = "") -> Any:
    """The schema with the keywords of its meaning in it.

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
    """Values of an enum with their names, aliases among them."""
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
        UNSET: _unset(kind),
    }


def _unset(kind: Any) -> list[str]:
    """Fields with the default UNSET; msgspec shows them as optional fields without a default."""
    if isinstance(kind, inspect.TypedDictType | inspect.NamedTupleType):
        return []
    nothing = inspect.NODEFAULT if hasattr(inspect, "NODEFAULT") else msgspec.NODEFAULT
    return [
        one.encode_name
        for one in kind.fields
        if not one.required and one.default is nothing and one.default_factory is nothing
    ]


def _defined(definitions: Mapping[str, Any], kind: inspect.Type) -> Iterable[tuple[str, Any]]:
    """The definitions of a schema with the classes that they are of, named as msgspec does."""
    for part in parts_of(kind):
        if not isinstance(part, (*_OBJECTS, inspect.EnumType)):
            continue
        cls: Any = part.cls
        origin = getattr(cls, "__origin__", cls)
        name = origin.__name__
        if origin is not cls:
            told = (one.__name__ if isinstance(one, type) else repr(one) for one in cls.__args__)
            name = f"{name}[{', '.join(told)}]"
        for text in (name, f"{origin.__module__}.{origin.__qualname__}"):
            found = re.sub(r"[^a-zA-Z0-9.\-_]", "_", text)
            if found in definitions:
                yield found, part
                break


def without_names(schema: Any) -> Any:
    """The schema as others know it, without the keywords that are ours."""
    if isinstance(schema, dict):
        return {
            name: without_names(one)
            for name, one in schema.items()
            if name not in (NAMES_OF_ITEMS, ORDER_OF_FIELDS) or not isinstance(one, list)
        }
    return [without_names(one) for one in schema] if isinstance(schema, list) else schema


def _name_items(definitions: dict[str, Any], kind: inspect.Type) -> None:
    """Note the fields of every class that is written as an array, where its name tells which."""
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
    """A type as msgspec understands it, and every type inside it, each once."""
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
    """The schema of keys that are members of an enum; msgspec writes none of keys but text."""
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
        # Of more than one type and None nobody makes a column, so only that one is looked for.
        kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if len(kinds) == len(choices) == 1:
            _mark(choices[0], kinds[0], definitions, seen)


def names_of_members(enum: Schema) -> dict[str, frozenset[str]]:
    """The value of each member, as it is in JSON -> its names; none where nothing is known."""
    names: dict[str, frozenset[str]] = {}
    for value, name in enum.get(MEMBERS, ()):
        code = msgspec.json.encode(value).decode()
        names[code] = names.get(code, frozenset()) | {name}
    return names


def names_of_items(array: Schema) -> dict[int, frozenset[str]]:
    """The place of each field -> the names that it has: in Python, and in JSON."""
    written = {name: one for one, name in array.get(ATTRIBUTES, {}).items()}
    names = array.get(NAMES_OF_ITEMS, ())
    return {n: frozenset({name, written.get(name, name)}) for n, name in enumerate(names)}


def names_of_attributes(cls: Schema) -> dict[str, frozenset[str]]:
    """The name of each field in JSON -> the name of the attribute."""
    attributes = cls.get(ATTRIBUTES, {})
    return {name: frozenset({attributes.get(name, name)}) for name in cls.get("properties", ())}


def all_names(names: Names) -> frozenset[str]:
    """Every name on one side."""
    return frozenset[str]().union(*names.values())


def differing_codes(before: Names, after: Names) -> list[Any]:
    """The codes that have none of their names any more.

    >>> before = {1: frozenset({"NEW"}), 2: frozenset({"PAID"})}
    >>> differing_codes(before, {1: frozenset({"OPEN"}), 2: frozenset({"PAID"})})
    [1]
    """
    return [code for code in before if code in after and not before[code] & after[code]]


def moved_codes(before: Names, after: Names) -> list[Any]:
    """The codes that differ by more than a new name: a name has, or had, another code.

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
