"""Compare two Avro schemas by Avro's own rules: can the new one read what the old one wrote?

The rules are those of the package ``avro`` (Avro specification, *Schema Resolution*). They apply
only if the reader knows the writer's schema: rows name it by a registry's id or by a fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from logstate.contracts.compatibility import SpecChange, Verdict
from logstate.contracts.errors import SerdeError

try:
    import avro.compatibility
    import avro.schema
except ImportError as error:
    raise SerdeError(
        f"Avro schemas cannot be compared: the package {error.name} is missing. Install"
        " logstate[avro]"
    ) from error

_NOT_RESOLVED = (
    "By Avro's rules the stored rows cannot be read with the new schema: {why}. Add only fields"
    " that have a default, and keep the types"
)
_RESOLVED = "The stored rows are read by Avro's rules, with the schema that they name"
_UNNAMED = (
    "Rows without a registry do not say which schema wrote them, and would be read as the new one."
    " Keep the schema, or use a store of another name, with avro(single_object=True) or a registry"
)
_NOT_AMONG_READ = (
    "Rows may still have the stored schema, which the application would not know. Add it to"
    " also_read=, next to the declared schema"
)
_OTHER_LOGIC = (
    "The bytes of a logical type stay, but mean another value. Keep it, or add another field"
)


def avro_changes(
    subject: str, part: str, stored: Any, declared: Any, *, rows_name_their_schema: bool
) -> list[SpecChange]:
    """Return the changes from the writer's schema to the reader's; none if only words changed."""
    writer, reader = _parsed(stored), _parsed(declared)
    is_alike = writer.canonical_form == reader.canonical_form
    other_logic = list(_Logic(stored, declared).differences(part, stored, declared))
    if other_logic:
        return [SpecChange(Verdict.REFUSED, subject, *one, _OTHER_LOGIC) for one in other_logic]
    if is_alike:
        return []
    sides = _texts(stored, declared)
    if not rows_name_their_schema:
        return [SpecChange(Verdict.REFUSED, subject, part, *sides, _UNNAMED)]
    checker: Any = avro.compatibility.ReaderWriterCompatibilityChecker
    found = checker().get_compatibility(reader, writer)
    if found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return [SpecChange(Verdict.COMPATIBLE, subject, part, *sides, _RESOLVED)]
    kinds = sorted(kind.value for kind in found.incompatibilities)
    why = ", ".join(kinds) + f" at {', '.join(sorted(found.locations))}"
    return [SpecChange(Verdict.REFUSED, subject, part, *sides, _NOT_RESOLVED.format(why=why))]


def single_object_changes(
    subject: str, part: str, stored: Mapping[str, Any], declared: Mapping[str, Any]
) -> Iterator[SpecChange]:
    """Compare each schema that rows may have with the declared ones; rows name their schema.

    A row is read with the declared schema of its fingerprint, which does not contain logical types,
    and resolved into the newest one.
    """
    from logstate.serdes.avro import schema_fingerprint

    newest = declared["schema"]
    readable: dict[bytes, Any] = {}
    for one in (newest, *declared.get("also_read", ())):
        readable.setdefault(schema_fingerprint(one), one)
    for schema in (stored["schema"], *stored.get("also_read", ())):
        writer = readable.get(schema_fingerprint(schema))
        if writer is None:
            sides = _texts(schema, newest)
            yield SpecChange(Verdict.REFUSED, subject, part, *sides, _NOT_AMONG_READ)
            continue
        for one in _Logic(schema, writer).differences(part, schema, writer):
            yield SpecChange(Verdict.REFUSED, subject, *one, _OTHER_LOGIC)
        if writer is not newest:
            yield from avro_changes(subject, part, schema, newest, rows_name_their_schema=True)


def _texts(stored: Any, declared: Any) -> tuple[str, str]:
    return msgspec.json.encode(stored).decode(), msgspec.json.encode(declared).decode()


class _Logic:
    """Compares logical types, which canonical forms and Avro's own rules ignore."""

    def __init__(self, stored: Any, declared: Any) -> None:
        self._named = ({}, {})  # type: tuple[dict[str, Any], dict[str, Any]]
        for named, schema in zip(self._named, (stored, declared), strict=True):
            _note_names(schema, named)
        #: pairs of names that were compared: a record that contains itself is compared once
        self._seen: set[tuple[str, str]] = set()

    def differences(
        self, place: str, stored: Any, declared: Any
    ) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield each place where they differ, with both sides."""
        if isinstance(stored, list) or isinstance(declared, list):
            before, after = (one if isinstance(one, list) else [one] for one in (stored, declared))
            branches = {_branch_name(one): one for one in after}
            for one in before:
                if _branch_name(one) in branches:
                    yield from self.differences(place, one, branches[_branch_name(one)])
            return
        if isinstance(stored, str) and isinstance(declared, str):
            if (stored, declared) in self._seen:
                return
            self._seen.add((stored, declared))
        one, other = (self._defined(side, what) for side, what in enumerate((stored, declared)))
        sides = (_logic_of(one), _logic_of(other))
        if sides[0] != sides[1]:
            yield place, *sides
            return
        for part in ("items", "values"):
            if part in one and part in other:
                yield from self.differences(f"{place}[]", one[part], other[part])
        fields = {name: field for field in other.get("fields", ()) for name in _field_names(field)}
        for field in one.get("fields", ()):
            if field["name"] in fields:
                inner = f"{place}.{field['name']}"
                yield from self.differences(inner, field["type"], fields[field["name"]]["type"])

    def _defined(self, side: int, schema: Any) -> Mapping[str, Any]:
        found = self._named[side].get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(found, str):
            return {"type": found}
        inner = found.get("type")
        is_wrapped = isinstance(inner, Mapping) and "logicalType" not in found
        return self._defined(side, inner) if is_wrapped else found


def _note_names(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for one in schema:
            _note_names(one, named)
    elif isinstance(schema, Mapping):
        if "name" in schema and schema.get("type") in ("record", "error", "enum", "fixed"):
            named[str(schema["name"])] = schema
            named[f"{schema.get('namespace', '')}.{schema['name']}"] = schema
        for part in ("type", "items", "values"):
            _note_names(schema.get(part), named)
        for field in schema.get("fields", ()):
            _note_names(field["type"], named)


def _branch_name(schema: Any) -> str:
    """Return the name that identifies a branch of a union."""
    if isinstance(schema, Mapping):
        kind = str(schema.get("name", schema["type"]))
        return kind.rpartition(".")[2]
    return str(schema).rpartition(".")[2]


def _field_names(field: Mapping[str, Any]) -> Iterator[str]:
    yield from field.get("aliases", ())
    yield field["name"]


def _logic_of(schema: Mapping[str, Any]) -> str | None:
    if "logicalType" not in schema:
        return None
    parameters = [f"{part} {schema[part]}" for part in ("precision", "scale") if part in schema]
    return " ".join([str(schema["logicalType"]), *parameters])


def _parsed(schema: Any) -> Any:
    return avro.schema.parse(msgspec.json.encode(schema).decode())
