"""Whether JSON that was written for one type is read by another: compares two JSON schemas.

The schemas are those that msgspec makes of a type: objects by their fields, arrays, maps, unions,
enums, scalars. A field that is added needs a default, which rows that are there are read with; a
field that is gone is skipped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from logstate.contracts.compatibility import Change, Verdict, worst
from logstate.serdes.json_schema import NAMES_OF_ITEMS

Schema = Mapping[str, Any]

_UNREADABLE = (
    "Rows that are there do not decode to what they meant. Keep the field's type and add another"
    " field with a default"
)
_NO_DEFAULT = "Rows that are there do not have it. Give the field a default"
_MAY_LACK = (
    "It had a default, so rows that are there may do without it. Give the field a default again"
)
_ADDED = "Rows that are there are read with the default"
_GONE = "It is skipped in rows that are there; a row loses it with its next update"
_NOT_SKIPPED = (
    "Rows that are there have it, and the type forbids fields that it does not know. Allow them,"
    " or keep the field"
)
_OTHER_DEFAULT = "Rows that do not have the field are read with the new default"
_REORDERED = (
    "They are told apart by their places, so rows that are there would be read with values of other"
    " fields. Keep the order, and add fields at the end, with defaults"
)
_CHECKED = "Rows that are there are checked one by one, when they are read"
_WIDER = "Rows that are there are read as they were meant"

_Place = tuple[str, str]


def json_changes(
    subject: str, part: str, stored: Schema | None, declared: Schema | None
) -> list[Change]:
    """What changed from one type to the other; None is JSON of any shape."""
    comparison = _Comparison(subject, stored or {}, declared or {})
    return list(comparison.changes(part, stored or {}, declared or {}))


def moved_names(stored: Schema, declared: Schema) -> list[str]:
    """Fields of an array that have another place now; none where an earlier version noted none."""
    before, now = stored.get(NAMES_OF_ITEMS), declared.get(NAMES_OF_ITEMS)
    if not (isinstance(before, list) and isinstance(now, list)):
        return []
    return [name for name in before if name in now and before.index(name) != now.index(name)]


class _Comparison:
    def __init__(self, subject: str, stored: Schema, declared: Schema) -> None:
        self._subject = subject
        self._roots = (stored, declared)
        #: types that are compared further up: a type that holds itself is compared once
        self._above: set[_Place] = set()

    def changes(self, part: str, stored: Schema, declared: Schema) -> Iterator[Change]:
        place = (stored.get("$ref", ""), declared.get("$ref", ""))
        if all(place):
            if place in self._above:
                return
            self._above.add(place)
        before, after = self._resolved(0, stored), self._resolved(1, declared)
        yield from self._by_shape(part, before, after)
        self._above.discard(place)

    def _by_shape(self, part: str, before: Schema, after: Schema) -> Iterator[Change]:
        if not after:  # any JSON
            yield from self._unless_same(part, before, after, Verdict.COMPATIBLE, _WIDER)
        elif not before or (_is_any_object(before) and "properties" in after):
            yield from self._unless_same(part, before, after, Verdict.COMPATIBLE, _CHECKED)
        elif "anyOf" in before or "anyOf" in after:
            yield from self._unions(part, before, after)
        elif "enum" in before and "enum" in after:
            is_wider = _written(before["enum"]) <= _written(after["enum"])
            verdict = Verdict.COMPATIBLE if is_wider else Verdict.REFUSED
            meaning = _WIDER if is_wider else _UNREADABLE
            yield from self._unless_same(part, before, after, verdict, meaning)
        elif before.get("type") != after.get("type") or ("enum" in before) != ("enum" in after):
            is_wider = (before.get("type"), after.get("type")) == ("integer", "number")
            verdict = Verdict.COMPATIBLE if is_wider else Verdict.REFUSED
            yield self._change(verdict, part, before, after, _WIDER if is_wider else _UNREADABLE)
        elif "properties" in before or "properties" in after:
            yield from self._fields(part, before, after)
        else:
            yield from self._scalars(part, before, after)

    def _fields(self, part: str, before: Schema, after: Schema) -> Iterator[Change]:
        old, new = before.get("properties", {}), after.get("properties", {})
        needed, was_needed = set(after.get("required", ())), set(before.get("required", ()))
        for name in (*new, *(name for name in old if name not in new)):
            place = f"{part}.{name}"
            if name not in old:
                is_read = name not in needed
                verdict = Verdict.COMPATIBLE if is_read else Verdict.REFUSED
                meaning = _ADDED if is_read else _NO_DEFAULT
                yield self._change(verdict, place, None, new[name], meaning)
            elif name not in new:
                is_skipped = after.get("additionalProperties") is not False
                verdict = Verdict.COMPATIBLE if is_skipped else Verdict.REFUSED
                meaning = _GONE if is_skipped else _NOT_SKIPPED
                yield self._change(verdict, place, old[name], None, meaning)
            else:
                if name in needed and name not in was_needed:
                    yield self._change(Verdict.REFUSED, place, "a default", "no default", _MAY_LACK)
                elif "default" in old[name] and old[name]["default"] != new[name].get("default"):
                    sides = (old[name]["default"], new[name].get("default"))
                    yield Change(Verdict.COMPATIBLE, self._subject, place, *sides, _OTHER_DEFAULT)
                yield from self.changes(place, old[name], new[name])

    def _unions(self, part: str, before: Schema, after: Schema) -> Iterator[Change]:
        """Each kind of value that was written must still be read by one of the union's parts."""
        options = after.get("anyOf", [after])
        for option in before.get("anyOf", [before]):
            found = [list(self.changes(part, option, one)) for one in options]
            best = min(found, key=worst, default=[])
            if worst(best) is Verdict.REFUSED and len(options) > 1:
                yield self._change(Verdict.REFUSED, part, option, after, _UNREADABLE)
            else:
                yield from best

    def _scalars(self, part: str, before: Schema, after: Schema) -> Iterator[Change]:
        for name in ("format", "contentEncoding", "minItems", "maxItems"):
            if before.get(name) != after.get(name) and not _is_time_at_last(name, before, after):
                yield self._change(Verdict.REFUSED, part, before, after, _UNREADABLE)
                return
        if before.get("format") != after.get("format"):
            yield self._change(Verdict.COMPATIBLE, part, before, after, _CHECKED)
        for name in ("items", "additionalProperties"):
            one, other = before.get(name), after.get(name)
            if isinstance(one, Mapping) and isinstance(other, Mapping):
                yield from self.changes(f"{part}[]", one, other)
        if moved_names(before, after):
            sides = (before[NAMES_OF_ITEMS], after[NAMES_OF_ITEMS])
            yield Change(Verdict.REFUSED, self._subject, part, *sides, _REORDERED)
            return
        pairs = zip(before.get("prefixItems", ()), after.get("prefixItems", ()), strict=False)
        for number, (one, other) in enumerate(pairs):
            yield from self.changes(f"{part}[{number}]", one, other)
        limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern")
        if any(before.get(name) != after.get(name) for name in (*limits, "minLength", "maxLength")):
            yield self._change(Verdict.COMPATIBLE, part, before, after, _CHECKED)

    def _unless_same(
        self, part: str, before: Schema, after: Schema, verdict: Verdict, meaning: str
    ) -> Iterator[Change]:
        if before != after:
            yield self._change(verdict, part, before, after, meaning)

    def _change(self, verdict: Verdict, part: str, before: Any, after: Any, meaning: str) -> Change:
        return Change(verdict, self._subject, part, _shown(before), _shown(after), meaning)

    def _resolved(self, side: int, schema: Schema) -> Schema:
        name = schema.get("$ref", "").rpartition("/")[2]
        if not name:
            return schema
        found: Schema = self._roots[side].get("$defs", {}).get(name, {})
        return found


def _is_any_object(schema: Schema) -> bool:
    return schema.get("type") == "object" and not (
        {"properties", "additionalProperties"} & schema.keys()
    )


def _written(values: Iterable[Any]) -> set[bytes]:
    """Values as they are in JSON: 1 is not "1"."""
    return {msgspec.json.encode(one) for one in values}


def _is_time_at_last(name: str, before: Schema, after: Schema) -> bool:
    """Whether a text is a time now: earlier versions did not note it of those that were one."""
    return name == "format" and name not in before and after.get(name) == "date-time"


def _shown(schema: Any) -> Any:
    """A type in as few words as tell it apart."""
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(str(_shown(one)) for one in schema["anyOf"])
    if "enum" in schema:
        return f"one of {schema['enum']}"
    if not schema:
        return "any JSON"
    kind = schema.get("title") or schema.get("type") or dict(schema)
    limits = [f"{k} {schema[k]}" for k in ("format", "contentEncoding") if k in schema]
    return f"{kind} ({', '.join(limits)})" if limits else kind
