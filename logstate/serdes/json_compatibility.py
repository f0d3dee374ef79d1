"""Compare two JSON schemas: can one type read the JSON that was written for another one?

The schemas are those that msgspec generates for a type: objects by their fields, arrays, maps,
unions, enums, scalars. An added field needs a default, with which stored rows are read; a removed
field is skipped.

The same bytes may be readable with another meaning: the 2 of an enum is another member, the first
item of an array another field, a tag another class, an omitted field another default. These are
compared by the meaning in a description (:mod:`logstate.serdes.json_schema`). A description from an
earlier version of logstate has none; then only its schema is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from logstate.contracts.compatibility import SpecChange, Verdict, worst
from logstate.serdes.json_schema import (
    NAMES_OF_ITEMS,
    OMITTED,
    UNSET,
    Names,
    Schema,
    all_names,
    differing_codes,
    moved_codes,
    names_of_attributes,
    names_of_items,
    names_of_members,
)

_UNREADABLE = (
    "Stored rows do not decode to their old meaning. Keep the field's type and add another"
    " field with a default, or use a store of another name and forget this one"
)
_NO_DEFAULT = (
    "Stored rows do not have it. Give the field a default. Fields of agg() have none: use a store"
    " of another name and forget this one"
)
_MAY_LACK = "It had a default, so stored rows may lack it. Give the field a default again"
_ADDED = "Stored rows are read with the default"
_GONE = "It is skipped in stored rows; a row loses it with its next update"
_NOT_SKIPPED = (
    "Stored rows have it, and the type forbids unknown fields. Allow them, or keep the field"
)
_OTHER_DEFAULT = "Rows that do not have the field are read with the new default"
_REORDERED = (
    "They are identified by their position, so stored rows would be read with values of other"
    " fields. Keep the order, and add fields at the end, with defaults"
)
_OTHER_MEMBERS = (
    "Rows hold the value, and would be read as the other member. Give each member that exists its"
    " old value (write the values instead of auto()), and a new member a value that was never used"
)
_RENAMED_MEMBERS = (
    "Rows hold the value, and would be read as the new member. If only the name is new, keep the"
    " old name as an alias (a second name with the same value); if the new member means something"
    " else, give it a value that was never used"
)
_RENAMED_ITEMS = (
    "Rows hold the value by its position, and it would be read as the new field. If only the name"
    ' is new, keep the old one in the bytes, msgspec.field(name="..."), or declare the old type as'
    " an earlier version (upgradable); if it means something else, add a field at the end"
)
_OTHER_TAGS = (
    "Rows hold the tag, and would be read as objects of the other class. Give each class its old"
    " tag"
)
_OTHER_ATTRIBUTES = (
    "Rows hold the field under its JSON name, and it would be read as the other attribute. Give"
    " each attribute its old JSON name"
)
_OMITTED_DEFAULT = (
    "Rows omit the field while it has its default, so they would be read with the new"
    " default. Keep the default, or declare the old type as an earlier version (upgradable)"
)
_UNIQUE = (
    "A set drops repeated items and their order, which stored rows have. Keep the list, or"
    " add another field with a default"
)
_OTHER_ORDER = (
    "Rows do not contain the class of the union that they have, and the first that fits is read."
    " Keep the order of the classes, add others at the end, or give the classes tags (a"
    " discriminator)"
)
#: changes after which the same bytes are read without an error, as something else
CHANGES_OF_MEANING = frozenset(
    {
        *(_OTHER_MEMBERS, _RENAMED_MEMBERS, _RENAMED_ITEMS, _OTHER_TAGS, _OTHER_ATTRIBUTES),
        *(_OMITTED_DEFAULT, _UNIQUE, _OTHER_ORDER, _REORDERED),
    }
)
_CHECKED = "Stored rows are checked one by one, when they are read"
_WIDER = "Stored rows keep their meaning"

_Place = tuple[str, str]


def json_changes(
    subject: str,
    part: str,
    stored: Schema | None,
    declared: Schema | None,
    *,
    is_meaning_known: bool = False,
) -> list[SpecChange]:
    """Return the changes from one type to the other; None is JSON of any shape.

    ``is_meaning_known``: the stored schema contains its whole meaning (`with_meaning`).
    """
    before, after = stored or {}, declared or {}
    comparison = _Comparison(subject, before, after, is_meaning_known=is_meaning_known)
    return list(comparison.changes(part, before, after))


def moved_names(stored: Schema, declared: Schema) -> list[str]:
    """Return the fields of an array that moved; none if an earlier version recorded no names."""
    before, now = stored.get(NAMES_OF_ITEMS), declared.get(NAMES_OF_ITEMS)
    if not (isinstance(before, list) and isinstance(now, list)):
        return []
    return [name for name in before if name in now and before.index(name) != now.index(name)]


class _Comparison:
    def __init__(
        self, subject: str, stored: Schema, declared: Schema, *, is_meaning_known: bool
    ) -> None:
        self._subject = subject
        self._roots = (stored, declared)
        self._is_meaning_known = is_meaning_known
        #: types whose comparison is in progress: a type that contains itself is compared once
        self._above: set[_Place] = set()

    def changes(self, part: str, stored: Schema, declared: Schema) -> Iterator[SpecChange]:
        place = (stored.get("$ref", ""), declared.get("$ref", ""))
        if all(place):
            if place in self._above:
                return
            self._above.add(place)
        before, after = self._resolved(0, stored), self._resolved(1, declared)
        yield from self._by_shape(part, before, after)
        self._above.discard(place)

    def _by_shape(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        if not after:  # any JSON
            yield from self._unless_same(part, before, after, Verdict.COMPATIBLE, _WIDER)
        elif not before or (_is_any_object(before) and "properties" in after):
            yield from self._unless_same(part, before, after, Verdict.COMPATIBLE, _CHECKED)
        elif "anyOf" in before or "anyOf" in after:
            yield from self._unions(part, before, after)
        elif "enum" in before and "enum" in after:
            yield from self._enums(part, before, after)
        elif before.get("type") != after.get("type") or ("enum" in before) != ("enum" in after):
            is_wider = (before.get("type"), after.get("type")) == ("integer", "number")
            verdict = Verdict.COMPATIBLE if is_wider else Verdict.REFUSED
            yield self._change(verdict, part, before, after, _WIDER if is_wider else _UNREADABLE)
        elif "properties" in before or "properties" in after:
            yield from self._fields(part, before, after)
            yield from self._attributes(part, before, after)
        else:
            yield from self._scalars(part, before, after)

    def _fields(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
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
                elif self._is_omitted(name, before, after):
                    if _default_text(before, name) != _default_text(after, name):
                        sides = (_default_text(before, name), _default_text(after, name))
                        meaning = _OMITTED_DEFAULT
                        yield SpecChange(Verdict.REFUSED, self._subject, place, *sides, meaning)
                elif "default" in old[name] and old[name]["default"] != new[name].get("default"):
                    sides = (old[name]["default"], new[name].get("default"))
                    yield SpecChange(
                        Verdict.COMPATIBLE, self._subject, place, *sides, _OTHER_DEFAULT
                    )
                yield from self.changes(place, old[name], new[name])

    def _unions(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        """Each kind of value that was written must still be read by one of the union's parts."""
        tags = [self._tags(side, one) for side, one in enumerate((before, after))]
        if moved := moved_codes(*tags):
            yield self._renaming(part, tags, moved, _OTHER_TAGS)
            return
        options = after.get("anyOf", [after])
        for option in before.get("anyOf", [before]):
            found = [list(self.changes(part, option, one)) for one in options]
            best = min(found, key=worst, default=[])
            if rival := self._ambiguous_option(option, before, options, found):
                yield self._change(Verdict.REFUSED, part, option, rival, _OTHER_ORDER)
            elif worst(best) is Verdict.REFUSED and len(options) > 1:
                yield self._change(Verdict.REFUSED, part, option, after, _UNREADABLE)
            else:
                yield from best

    def _enums(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        names = [names_of_members(before), names_of_members(after)]
        if moved := moved_codes(*names):
            yield self._renaming(part, names, moved, _OTHER_MEMBERS)
            return
        is_wider = _json_texts(before["enum"]) <= _json_texts(after["enum"])
        verdict = Verdict.COMPATIBLE if is_wider else Verdict.REFUSED
        meaning = _WIDER if is_wider else _UNREADABLE
        if _json_texts(before["enum"]) != _json_texts(after["enum"]):
            yield self._change(verdict, part, before, after, meaning)
        # A text is its own meaning; the meaning of a number is the name of its member.
        renamed = [one for one in differing_codes(*names) if not one.startswith('"')]
        if renamed:
            yield self._renaming(part, names, renamed, _RENAMED_MEMBERS)

    def _attributes(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        if not self._is_meaning_known:
            return
        names = [names_of_attributes(before), names_of_attributes(after)]
        kept = [{code: one[code] for code in names[0] if code in names[1]} for one in names]
        if exchanged := [
            code for code in moved_codes(*kept) if kept[1][code] <= all_names(kept[0])
        ]:
            yield self._renaming(part, kept, exchanged, _OTHER_ATTRIBUTES)

    def _is_omitted(self, name: str, before: Schema, after: Schema) -> bool:
        """Return whether stored rows may lack the field because it had its default."""
        if self._is_meaning_known:
            return any(name in before.get(keyword, ()) for keyword in (OMITTED, UNSET))
        return name in after.get(OMITTED, ()) and "default" in before["properties"][name]

    def _ambiguous_option(
        self,
        option: Schema,
        before: Schema,
        options: list[Schema],
        found: list[list[SpecChange]],
    ) -> Schema | None:
        """Return the option of a union as which rows of another option would be read, if any."""
        wrote = self._resolved(0, option)
        reads = [self._resolved(1, one) for one in options]
        takes = [
            (_is_text(wrote) and _is_text(one))
            or (_has_fields_of(wrote, one) and worst(changes) is not Verdict.REFUSED)
            for one, changes in zip(reads, found, strict=True)
        ]
        if not any(takes):
            return None
        first = takes.index(True)
        known = [_option_identity(self._resolved(0, one)) for one in before.get("anyOf", [before])]
        kind, read = _option_identity(wrote), _option_identity(reads[first])
        if kind == read or read in known[: known.index(kind)]:  # as before
            return None
        is_moved = kind in map(_option_identity, reads) or ("properties" in wrote and read in known)
        return options[first] if is_moved else None

    def _tags(self, side: int, union: Schema) -> dict[str, frozenset[str]]:
        """Map what identifies each class of the union to the class."""
        tags: dict[str, frozenset[str]] = {}
        for option in union.get("anyOf", [union]):
            schema = self._resolved(side, option)
            if "anyOf" in schema:
                tags |= self._tags(side, schema)
                continue
            fields = [
                *schema.get("properties", {}).items(),
                *enumerate(schema.get("prefixItems", ())),
            ]
            for name, field in fields:
                values = self._resolved(side, field).get("enum", ())
                if len(values) == 1 and "title" in schema:
                    tag = f"{name} {msgspec.json.encode(values[0]).decode()}"
                    tags[tag] = tags.get(tag, frozenset()) | {schema["title"]}
        return tags

    def _renaming(
        self,
        part: str,
        names: Sequence[Names],
        codes: Iterable[Any],
        meaning: str,
    ) -> SpecChange:
        """Yield a change of meaning for each of the ``codes`` that has another name."""
        before, after = (
            ", ".join(f"{' or '.join(sorted(side[code]))} = {code}" for code in codes)
            for side in names
        )
        return SpecChange(Verdict.REFUSED, self._subject, part, before, after, meaning)

    def _scalars(self, part: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        sides = (before, after)
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
        keys = [self._resolved(i, one.get("propertyNames", {})) for i, one in enumerate(sides)]
        if all("enum" in one for one in keys):
            yield from self._enums(f"{part} keys", *keys)
        if moved_names(before, after):
            order = (before[NAMES_OF_ITEMS], after[NAMES_OF_ITEMS])
            yield SpecChange(Verdict.REFUSED, self._subject, part, *order, _REORDERED)
            return
        names = [names_of_items(before), names_of_items(after)]
        if replaced := differing_codes(*names):
            yield self._renaming(part, names, replaced, _RENAMED_ITEMS)
        is_unique = not before.get("uniqueItems") and after.get("uniqueItems")
        if is_unique and self._is_meaning_known:
            yield SpecChange(Verdict.REFUSED, self._subject, part, "a list", "a set", _UNIQUE)
        pairs = zip(before.get("prefixItems", ()), after.get("prefixItems", ()), strict=False)
        for number, (one, other) in enumerate(pairs):
            yield from self.changes(f"{part}[{number}]", one, other)
        limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern")
        if any(before.get(name) != after.get(name) for name in (*limits, "minLength", "maxLength")):
            yield self._change(Verdict.COMPATIBLE, part, before, after, _CHECKED)

    def _unless_same(
        self, part: str, before: Schema, after: Schema, verdict: Verdict, meaning: str
    ) -> Iterator[SpecChange]:
        if before != after:
            yield self._change(verdict, part, before, after, meaning)

    def _change(
        self, verdict: Verdict, part: str, before: Any, after: Any, meaning: str
    ) -> SpecChange:
        return SpecChange(
            verdict, self._subject, part, _short_schema(before), _short_schema(after), meaning
        )

    def _resolved(self, side: int, schema: Schema) -> Schema:
        name = schema.get("$ref", "").rpartition("/")[2]
        found: Schema = self._roots[side].get("$defs", {}).get(name, {}) if name else schema
        if "const" in found and "enum" not in found:  # pydantic's literal of one value
            return {"enum": [found["const"]], **found}
        if "oneOf" in found and "anyOf" not in found:  # pydantic's union with a discriminator
            return {"anyOf": found["oneOf"], **found}
        return found


def _has_fields_of(wrote: Schema, reads: Schema) -> bool:
    fields = wrote.get("properties", {}).keys()
    return bool(fields) and fields <= reads.get("properties", {}).keys()


def _is_text(schema: Schema) -> bool:
    return schema.get("type") == "string" and "enum" not in schema


def _option_identity(schema: Schema) -> str:
    """Return what identifies an option of a union: the class, or the format of a text."""
    if "properties" in schema:
        return str(schema.get("title"))
    return str([schema.get(one) for one in ("type", "format", "contentEncoding", "pattern")])


def _default_text(cls: Schema, name: str) -> str:
    """Describe the value with which an object without the field is read."""
    if name in cls.get(UNSET, ()):
        return "UNSET"
    field = cls["properties"][name]
    if "default" not in field:
        return "a default made by a function"
    return f"the default {msgspec.json.encode(field['default']).decode()}"


def _is_any_object(schema: Schema) -> bool:
    return schema.get("type") == "object" and not (
        {"properties", "additionalProperties"} & schema.keys()
    )


def _json_texts(values: Iterable[Any]) -> set[bytes]:
    """Return values as they are in JSON: 1 is not "1"."""
    return {msgspec.json.encode(one) for one in values}


def _is_time_at_last(name: str, before: Schema, after: Schema) -> bool:
    """Return whether a text is declared a time now: earlier versions did not record times."""
    return name == "format" and name not in before and after.get(name) == "date-time"


def _short_schema(schema: Any) -> Any:
    """Return a short description of a type that still distinguishes it from others."""
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(str(_short_schema(one)) for one in schema["anyOf"])
    if "enum" in schema:
        return f"one of {schema['enum']}"
    if not schema:
        return "any JSON"
    kind = schema.get("title") or schema.get("type") or dict(schema)
    limits = [f"{k} {schema[k]}" for k in ("format", "contentEncoding") if k in schema]
    return f"{kind} ({', '.join(limits)})" if limits else kind
