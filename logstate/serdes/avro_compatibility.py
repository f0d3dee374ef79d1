"""Whether Avro that was written with one schema is read with another: Avro's own rules.

The rules are those of the package ``avro`` (Avro specification, *Schema Resolution*). They hold
where a reader knows the writer's schema, which rows without a registry's id do not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from logstate.contracts.compatibility import Change, Verdict
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
    "By Avro's rules rows that are there cannot be read with the new schema: {why}. Add fields with"
    " a default only, and keep types"
)
_RESOLVED = "Rows that are there are read by Avro's rules, with the schema that they name"
_UNNAMED = (
    "Rows without a registry do not say which schema wrote them, and would be read as the new one."
    " Keep the schema, or use a registry and a store of another name"
)
_OTHER_LOGIC = (
    "The bytes of a logical type stay, but stand for another value. Keep it, or add another field"
)


def avro_changes(
    subject: str, part: str, stored: Any, declared: Any, *, rows_name_their_schema: bool
) -> list[Change]:
    """What changed from the writer's schema to the reader's; nothing if only words did."""
    writer, reader = _parsed(stored), _parsed(declared)
    is_alike = writer.canonical_form == reader.canonical_form
    has_same_logic = list(_logical_types(stored)) == list(_logical_types(declared))
    if is_alike and has_same_logic:
        return []
    sides = (msgspec.json.encode(stored).decode(), msgspec.json.encode(declared).decode())
    if is_alike:
        return [Change(Verdict.REFUSED, subject, part, *sides, _OTHER_LOGIC)]
    if not rows_name_their_schema:
        return [Change(Verdict.REFUSED, subject, part, *sides, _UNNAMED)]
    checker: Any = avro.compatibility.ReaderWriterCompatibilityChecker
    found = checker().get_compatibility(reader, writer)
    if found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return [Change(Verdict.COMPATIBLE, subject, part, *sides, _RESOLVED)]
    kinds = sorted(kind.value for kind in found.incompatibilities)
    why = ", ".join(kinds) + f" at {', '.join(sorted(found.locations))}"
    return [Change(Verdict.REFUSED, subject, part, *sides, _NOT_RESOLVED.format(why=why))]


def _logical_types(schema: Any) -> Iterator[str]:
    """In the order of the schema; canonical forms leave them out."""
    if isinstance(schema, Mapping):
        if "logicalType" in schema:
            kept = {name: schema.get(name) for name in ("logicalType", "precision", "scale")}
            yield str(kept)
        for part in schema.values():
            yield from _logical_types(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _logical_types(part)


def _parsed(schema: Any) -> Any:
    return avro.schema.parse(msgspec.json.encode(schema).decode())
