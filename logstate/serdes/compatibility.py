"""Compare what serdes describe: can one serde read the bytes that another one wrote?

Descriptions are plain data (:meth:`Serde.describe`), so the declarations of an earlier version of
an application can be compared although its types no longer exist.

Keys must be described alike: a key that is encoded differently finds no row. Values may change as
long as stored rows still decode to their old meaning: JSON types by their fields, Avro schemas by
Avro's own rules (:mod:`logstate.serdes.avro_compatibility`), Protobuf by the numbers of fields.
Other formats may not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from logstate.contracts.compatibility import SpecChange, Verdict
from logstate.contracts.formats import SINGLE_OBJECT
from logstate.serdes.json_compatibility import CHANGES_OF_MEANING, json_changes, moved_names
from logstate.serdes.json_schema import MEANING, NAMES_OF_ITEMS, ORDER_OF_FIELDS, with_meaning
from logstate.serdes.protobuf_compatibility import protobuf_changes

Description = Mapping[str, Any]

#: keywords of a JSON schema without effect on the bytes, with data, with schemas by field name
_SAID = frozenset({"title", "description", "$defs"})
_VALUES = frozenset({"default", "const", "enum", "examples", NAMES_OF_ITEMS, ORDER_OF_FIELDS})
_BY_NAME = frozenset({"properties", "patternProperties"})

_REFUSED_VALUE = (
    "Stored rows do not decode to their old meaning. Keep the type, or write to a store of"
    " another name and forget this one"
)
_REFUSED_KEY = (
    "Equal keys would have other bytes, so no stored row would be found. Keep the type, or"
    " use a store of another name and forget this one"
)
_PERHAPS_TEXTS = (
    "Earlier versions did not record that a text is a time. If it was not a time, no stored row"
    " would be found: then keep the type, or use a store of another name and forget this one"
)
_OTHER_REGISTRY = (
    "Rows name their schemas by ids: it must be the same registry under another address"
)
_OTHER_HEADER = (
    "Rows that name their schema cannot be distinguished from those that do not: a record may begin"
    " with the same bytes. Keep the encoding, or use a store of another name and forget this one"
)
_UPGRADED = "Rows of earlier versions are upgraded when they are read"
_UNVERSIONED = (
    "Stored rows have no version. Give their version with unversioned=, or use a"
    " store of another name"
)
_NOT_READ = (
    "Rows of this version may still be stored, and would be unreadable. Declare it among the"
    " earlier versions"
)


def serde_changes(
    subject: str, part: str, stored: Description | None, declared: Description | None
) -> list[SpecChange]:
    """Return the changes between two descriptions; ``part`` is "key" or begins with "value".

    >>> price = {"format": "double", "schema": None}
    >>> [c.verdict.name for c in serde_changes("store 's'", "value", price, price)]
    []
    >>> [str(c) for c in serde_changes(  # doctest: +ELLIPSIS
    ...     "store 's'", "value", {"format": "int64"}, {"format": "string"})]
    ["store 's': value: stored int64, declared string. Stored rows do not decode to their old ..."]
    """
    if stored is None or declared is None:
        return []
    now = _without_names(declared)
    before = _with_names(_without_names(stored), now)
    if before == now:
        return list(_changes_of_meaning(subject, part, stored, declared))
    if part == "key":
        if _with_times(before, now) == now:
            sides = _schemas_to_compare(stored, declared)
            return [SpecChange(Verdict.COMPATIBLE, subject, part, *sides, _PERHAPS_TEXTS)]
        return [
            SpecChange(
                Verdict.REFUSED, subject, part, *_schemas_to_compare(stored, declared), _REFUSED_KEY
            )
        ]
    if declared["format"] == "upgradable":
        return list(_upgradable_changes(subject, part, stored, declared))
    if stored["format"] != declared["format"]:
        sides = (_name(stored), _name(declared))
        return [SpecChange(Verdict.REFUSED, subject, part, *sides, _REFUSED_VALUE)]
    if stored["format"] == "json":
        return _json_changes(subject, part, stored, declared)
    if stored["format"] == "json_schema":
        return [
            *_framing_changes(subject, part, stored, declared),
            *_json_changes(subject, part, stored, declared),
        ]
    if stored["format"] == "avro":
        return list(_avro_changes(subject, part, stored, declared))
    if stored["format"] == "protobuf" and stored["schema"] and declared["schema"]:
        return list(_protobuf_changes(subject, part, stored, declared))
    return list(_other_changes(subject, part, stored, declared))


def _json_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> list[SpecChange]:
    meaning = stored.get(MEANING)
    return json_changes(
        subject,
        part,
        with_meaning(stored["schema"], meaning or {}),
        with_meaning(declared["schema"], declared.get(MEANING, {})),
        is_meaning_known=meaning is not None,
    )


def _changes_of_meaning(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    """Yield what makes the same bytes mean something else, anywhere inside a description."""
    if stored["format"] in ("json", "json_schema"):
        yield from _json_changes(subject, part, stored, declared)
        return
    if stored["format"] == "avro":
        yield from _changes_of_avro_type(subject, part, stored, declared)
        return
    if stored["format"] == "protobuf" and stored["schema"] and declared["schema"]:
        # The order of an enum's values, whose first one may be a default, does not make two dicts
        # differ.
        yield from _protobuf_changes(subject, part, stored, declared)
        return
    parts = ((part, stored, declared), (f"{part}.version", *_versions(stored, declared)))
    for place, before, now in parts:
        for name, one in before.items():
            other = now.get(name)
            is_described = isinstance(one, Mapping) and "format" in one
            if is_described and isinstance(other, Mapping) and "format" in other:
                yield from _changes_of_meaning(subject, f"{place}.{name}", one, other)


def _versions(stored: Description, declared: Description) -> tuple[Description, Description]:
    return stored.get("versions", {}), declared.get("versions", {})


def _changes_of_avro_type(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    """Avro decides whether a type can be read; the type decides what enums and arrays mean."""
    before, now = stored.get("type"), declared.get("type")
    if before is not None and now is not None:
        for change in _json_changes(subject, part, before, now):
            if change.meaning in CHANGES_OF_MEANING:
                yield change


def _upgradable_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    """Each version that rows may have must still be read, by a serde that fits it."""
    versions = declared["versions"]
    if stored["format"] == "upgradable":
        written: Mapping[str, Description] = stored["versions"]
    elif declared["unversioned"] is None:
        yield SpecChange(Verdict.REFUSED, subject, part, _name(stored), "upgradable", _UNVERSIONED)
        return
    else:
        written = {str(declared["unversioned"]): stored}
    for number, description in written.items():
        place = f"{part}.version {number}"
        if number in versions:
            yield from serde_changes(subject, place, description, versions[number])
        else:
            yield SpecChange(Verdict.REFUSED, subject, place, _name(description), None, _NOT_READ)
    before, now = stored.get("version"), declared["version"]
    if before != now:
        yield SpecChange(Verdict.COMPATIBLE, subject, f"{part}.version", before, now, _UPGRADED)


def _framing_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    for setting, verdict, meaning in (
        ("framing", Verdict.REFUSED, _REFUSED_VALUE),
        ("registry", Verdict.COMPATIBLE, _OTHER_REGISTRY),
    ):
        sides = (stored.get(setting), declared.get(setting))
        if sides[0] != sides[1]:
            yield SpecChange(verdict, subject, f"{part}.{setting}", *sides, meaning)


def _protobuf_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    yield from _framing_changes(subject, part, stored, declared)
    yield from protobuf_changes(
        subject,
        part,
        stored["schema"],
        declared["schema"],
        declared.get("renamed", {}),
        rows_name_their_message=declared.get("framing") == "confluent",
    )


def _avro_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    framings = (stored.get("framing"), declared.get("framing"))
    if SINGLE_OBJECT in framings and framings[0] != framings[1]:
        yield SpecChange(Verdict.REFUSED, subject, f"{part}.framing", *framings, _OTHER_HEADER)
        return
    yield from _framing_changes(subject, part, stored, declared)
    yield from _changes_of_avro_type(subject, part, stored, declared)
    if SINGLE_OBJECT in framings:
        from logstate.serdes.avro_compatibility import single_object_changes

        yield from single_object_changes(subject, part, stored, declared)
        return
    if stored["schema"] == declared["schema"] or not (stored["schema"] and declared["schema"]):
        return  # the registry has the schemas, and its own rules for them
    from logstate.serdes.avro_compatibility import avro_changes

    carries_ids = declared.get("framing") == "confluent"
    yield from avro_changes(
        subject, part, stored["schema"], declared["schema"], rows_name_their_schema=carries_ids
    )


def _other_changes(
    subject: str, part: str, stored: Description, declared: Description
) -> Iterator[SpecChange]:
    """Compare formats made of other formats part by part; other formats may not change."""
    for name in sorted({*stored, *declared}):
        sides = (stored.get(name), declared.get(name))
        if all(isinstance(side, Mapping) and "format" in side for side in sides):
            yield from serde_changes(subject, f"{part}.{name}", *sides)
        elif sides[0] != sides[1]:
            yield SpecChange(Verdict.REFUSED, subject, f"{part}.{name}", *sides, _REFUSED_VALUE)


def _schemas_to_compare(stored: Description, declared: Description) -> tuple[Any, Any]:
    names = (_name(stored), _name(declared))
    return names if names[0] != names[1] else (_schema_of(stored), _schema_of(declared))


def _name(description: Description) -> str:
    schema = description.get("schema")
    title = schema.get("$ref", "").rpartition("/")[2] if isinstance(schema, Mapping) else ""
    return f"{description['format']} ({title})" if title else str(description["format"])


def _schema_of(description: Description) -> Any:
    return description.get("schema") or dict(description)


def _without_names(side: Any) -> Any:
    """Remove the parts that have no bytes: the names of classes, and their descriptions."""
    if isinstance(side, Mapping):
        if "format" in side and side["format"] == "json":
            return ("json", _unnamed(side.get("schema")))
        if "format" in side and side["format"] == "json_schema":
            return ("json_schema", side.get("registry"), _unnamed(side.get("schema")))
        if "format" in side and side["format"] == "protobuf":  # other parts have no bytes
            return [side.get(name) for name in ("format", "schema", "framing", "registry")]
        if "format" in side and side["format"] == "avro":  # without the type, compared by itself
            return {name: _without_names(value) for name, value in side.items() if name != "type"}
        return {name: _without_names(value) for name, value in side.items()}
    return [_without_names(one) for one in side] if isinstance(side, list | tuple) else side


def _with_names(stored: Any, declared: Any) -> Any:
    """Return the stored schema with the names of items as declared: names are not in the bytes.

    Earlier versions did not record the names, nor the order of fields.
    """
    if isinstance(stored, Mapping) and isinstance(declared, Mapping):
        noted = {name: _with_names(one, declared.get(name)) for name, one in stored.items()}
        names = declared.get(NAMES_OF_ITEMS)
        if isinstance(names, list) and not moved_names(stored, declared):
            noted[NAMES_OF_ITEMS] = names
        if isinstance(order := declared.get(ORDER_OF_FIELDS), list):
            noted.setdefault(ORDER_OF_FIELDS, order)
        return noted
    if isinstance(stored, list | tuple) and isinstance(declared, list | tuple):
        pairs = zip_longest(stored, declared[: len(stored)])
        return type(stored)(_with_names(one, other) for one, other in pairs)
    return stored


def _with_times(stored: Any, declared: Any) -> Any:
    """Return the stored schema with a text marked as a time if it is declared as one."""
    if isinstance(stored, Mapping) and isinstance(declared, Mapping):
        noted = {name: _with_times(one, declared.get(name)) for name, one in stored.items()}
        is_time = declared.get("format") == "date-time" and stored.get("type") == "string"
        return {"format": "date-time", **noted} if is_time else noted
    if isinstance(stored, list | tuple) and isinstance(declared, list | tuple):
        pairs = zip_longest(stored, declared[: len(stored)])
        return type(stored)(_with_times(one, other) for one, other in pairs)
    return stored


def _unnamed(schema: Any) -> Any:
    """Return a JSON schema with its definitions inserted where they are used."""
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}

    def of_schema(side: Any, above: tuple[str, ...]) -> Any:
        if not isinstance(side, Mapping):
            return [of_schema(one, above) for one in side] if isinstance(side, list) else side
        name = side.get("$ref", "").rpartition("/")[2]
        if name in above:
            return above.index(name)
        if name:
            return of_schema(definitions.get(name), (*above, name))
        return {
            part: of_part(part, value, above) for part, value in side.items() if part not in _SAID
        }

    def of_part(part: str, value: Any, above: tuple[str, ...]) -> Any:
        if part in _VALUES:
            return value
        if part in _BY_NAME and isinstance(value, Mapping):  # a field may have a keyword's name
            return {name: of_schema(one, above) for name, one in value.items()}
        return of_schema(value, above)

    return of_schema(schema, ())
