"""Compare two Protobuf messages by the numbers of their fields: can one read the other's bytes?

The bytes contain the numbers. So a field may be added or removed, while a number that is reused for
something else gives every row another meaning. If only the name of a number differs, only the user
knows whether it is the same field: ``renamed=`` says so. The compared schemas are those of
:func:`logstate.serdes.protobuf_schema.message_schema`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from logstate.contracts.compatibility import SpecChange, Verdict

Schema = Mapping[str, Any]

#: types whose values are all values of the other type, with the same bytes
_WIDER = {
    ("int32", "int64"), ("uint32", "uint64"), ("uint32", "int64"), ("sint32", "sint64"),
    ("bool", "int32"), ("bool", "int64"), ("bool", "uint32"), ("bool", "uint64"),
    ("enum", "int32"), ("enum", "int64"), ("string", "bytes"),
}  # fmt: skip

_ADDED = "Stored rows are read with the default"
_GONE = "It is kept unread in stored rows. Never use its number again: reserve it"
_READ = "Stored rows keep their meaning"
_RENAMED = "The number stays, so stored rows have it under the new name"
_OTHER_NAME = (
    "Stored rows hold the number with its old meaning. If only the name is new, say so:"
    " protobuf(..., renamed={{{old!r}: {new!r}}}); if it is another thing, give it a new number"
)
_REUSED = (
    "The number has another meaning in stored rows. Give the field a number that was"
    " never used, and reserve the old one"
)
_MOVED = (
    "Rows hold the field under its old number, and would be read without it. Give the field its"
    " number back; if it is another field on purpose, say what the old one was:"
    " protobuf(..., renamed={{{old!r}: 'old_{old}'}})"
)
_REUSED_NAME = (
    "Rows hold the old number, which has no name any more. Give the value its number back, and a"
    " new value a number that was never used"
)
_NEEDED = "Stored rows do not have it, and would be refused. Make the field optional"
_EXCLUSIVE = "Stored rows may have both, and only the last one would be read. Keep them separate"
_UNREAD_NAME = "A closed enum reads the number as if it were missing. Keep it"
_OTHER_DEFAULT = (
    "Rows do not hold the field where it is not set, and would be read with the new default. Keep"
    " the default, or add another field"
)
_OTHER_MESSAGE = (
    "Framed rows name their message, and those that are there name another one. Keep the name"
)


def protobuf_changes(
    subject: str,
    part: str,
    stored: Schema,
    declared: Schema,
    renamed: Mapping[str, str],
    *,
    rows_name_their_message: bool,
) -> Iterator[SpecChange]:
    """Return the changes from the writer's message to the reader's."""
    if rows_name_their_message and stored["message"] != declared["message"]:
        sides = (stored["message"], declared["message"])
        yield SpecChange(Verdict.REFUSED, subject, f"{part}.message", *sides, _OTHER_MESSAGE)
    comparison = _Comparison(subject, stored, declared, renamed)
    yield from comparison.messages(part, stored["message"], declared["message"])


class _Comparison:
    def __init__(
        self, subject: str, stored: Schema, declared: Schema, renamed: Mapping[str, str]
    ) -> None:
        self._subject = subject
        self._stored = stored
        self._declared = declared
        self._renamed = renamed
        #: pairs that were compared: a message that contains itself is compared once
        self._seen: set[tuple[str, str]] = set()

    def messages(self, part: str, stored: str, declared: str) -> Iterator[SpecChange]:
        if (stored, declared) in self._seen:
            return
        self._seen.add((stored, declared))
        old = self._stored["messages"][stored]["fields"]
        new = self._declared["messages"][declared]["fields"]
        numbers = {field["name"]: number for number, field in new.items()}
        for number in sorted({*old, *new}, key=int):
            before, after = old.get(number), new.get(number)
            moved_to = numbers.get(before["name"], number) if before else number
            if before and moved_to != number and before["name"] not in self._renamed:
                yield self._moved_field(part, number, before, moved_to, new[moved_to], after)
            elif after and before is None and self._is_moved(after["name"], old):
                continue  # reported at its old number
            else:
                yield from self._fields(part, number, before, after)
        yield from self._oneofs(part, old, new)

    def _fields(
        self, part: str, number: str, before: Schema | None, after: Schema | None
    ) -> Iterator[SpecChange]:
        if before is None and after is not None:
            is_needed = after.get("presence") == "required"
            verdict = Verdict.REFUSED if is_needed else Verdict.COMPATIBLE
            meaning = _NEEDED if is_needed else _ADDED
            yield self._change(verdict, f"{part}.{after['name']}", number, None, after, meaning)
        elif before is not None and after is None:
            place = f"{part}.{before['name']}"
            yield self._change(Verdict.COMPATIBLE, place, number, before, None, _GONE)
        elif before is not None and after is not None:
            yield from self._field(f"{part}.{before['name']}", number, before, after)

    def _is_moved(self, name: str, old: Mapping[str, Schema]) -> bool:
        return name not in self._renamed and any(one["name"] == name for one in old.values())

    def _moved_field(
        self,
        part: str,
        number: str,
        before: Schema,
        moved_to: str,
        moved: Schema,
        after: Schema | None,
    ) -> SpecChange:
        """Report a field with a new number; ``after`` is the field that has the old number now."""
        place = f"{part}.{before['name']}"
        if after is not None:
            return self._change(Verdict.REFUSED, place, number, before, after, _REUSED)
        sides = (_field_text(number, before), _field_text(moved_to, moved))
        meaning = _MOVED.format(old=before["name"])
        return SpecChange(Verdict.DECISION, self._subject, place, *sides, meaning)

    def _field(self, part: str, number: str, before: Schema, after: Schema) -> Iterator[SpecChange]:
        is_read = self._is_read(before, after)
        if not is_read:
            yield self._change(Verdict.REFUSED, part, number, before, after, _REUSED)
            return
        if before["name"] != after["name"]:
            is_told = self._renamed.get(before["name"]) == after["name"]
            verdict = Verdict.COMPATIBLE if is_told else Verdict.DECISION
            meaning = _OTHER_NAME.format(old=before["name"], new=after["name"])
            meaning = _RENAMED if is_told else meaning
            yield self._change(verdict, part, number, before, after, meaning)
        elif before["type"] != after["type"]:
            yield self._change(Verdict.COMPATIBLE, part, number, before, after, _READ)
        if after.get("presence") == "required" != before.get("presence"):
            yield self._change(Verdict.REFUSED, part, number, before, after, _NEEDED)
        defaults = (self._default(self._stored, before), self._default(self._declared, after))
        if defaults[0] != defaults[1]:
            yield SpecChange(Verdict.DECISION, self._subject, part, *defaults, _OTHER_DEFAULT)
        values = [(before, after)]
        if before["type"] == "map":
            values = [(before["value"], after["value"])]
        for one, other in values:
            if one["type"] == other["type"] and one["type"] in ("message", "group"):
                yield from self.messages(part, one["of"], other["of"])
            elif one["type"] == other["type"] == "enum":
                yield from self._enums(part, one["of"], other["of"])

    def _is_read(self, before: Schema, after: Schema) -> bool:
        if before.get("repeated") != after.get("repeated"):
            return False
        if before["type"] == after["type"] == "map":
            is_same_key = before["key"] == after["key"]
            return is_same_key and self._is_read(before["value"], after["value"])
        return before["type"] == after["type"] or (before["type"], after["type"]) in _WIDER

    def _default(self, schema: Schema, field: Schema) -> Any:
        """Return the value of the field if it is not set; None for the default of its type."""
        if field.get("type") != "enum" or "default" in field or field.get("repeated"):
            return field.get("default")
        values = schema["enums"][field["of"]]["values"]
        first = next(iter(values))
        return None if first == "0" else int(first)  # the first one is 0 in proto3

    def _enums(self, part: str, stored: str, declared: str) -> Iterator[SpecChange]:
        old, new = self._stored["enums"][stored], self._declared["enums"][declared]
        for number, name in old["values"].items():
            other = new["values"].get(number)
            sides = (f"{name} = {number}", other and f"{other} = {number}")
            if other is None and name in new["values"].values() and name not in self._renamed:
                moved = next(f"{one} = {n}" for n, one in new["values"].items() if one == name)
                sides = (f"{name} = {number}", moved)
                yield SpecChange(Verdict.REFUSED, self._subject, part, *sides, _REUSED_NAME)
            elif other is None and new["closed"]:
                yield SpecChange(Verdict.REFUSED, self._subject, part, *sides, _UNREAD_NAME)
            elif other is None:
                yield SpecChange(Verdict.COMPATIBLE, self._subject, part, *sides, _GONE)
            elif other != name and self._renamed.get(name) == other:
                yield SpecChange(Verdict.COMPATIBLE, self._subject, part, *sides, _RENAMED)
            elif other != name:
                is_moved = name in new["values"].values() or other in old["values"].values()
                verdict = Verdict.REFUSED if is_moved else Verdict.DECISION
                asked = _OTHER_NAME.format(old=name, new=other)
                meaning = _REUSED if is_moved else asked
                yield SpecChange(verdict, self._subject, part, *sides, meaning)

    def _oneofs(self, part: str, old: Schema, new: Schema) -> Iterator[SpecChange]:
        """Fields that could be set together must not exclude each other."""
        groups: dict[str, list[str]] = {}
        for number, field in new.items():
            if number in old and "oneof" in field:
                groups.setdefault(field["oneof"], []).append(number)
        for name, numbers in groups.items():
            before = {old[number].get("oneof", number) for number in numbers}
            if len(before) > 1:
                names = ", ".join(old[number]["name"] for number in numbers)
                sides = (f"{names} apart", f"oneof {name}")
                yield SpecChange(Verdict.REFUSED, self._subject, part, *sides, _EXCLUSIVE)

    def _change(
        self,
        verdict: Verdict,
        part: str,
        number: str,
        before: Schema | None,
        after: Schema | None,
        meaning: str,
    ) -> SpecChange:
        sides = (_field_text(number, before), _field_text(number, after))
        return SpecChange(verdict, self._subject, part, *sides, meaning)


def _field_text(number: str, field: Schema | None) -> str | None:
    """Return the field as in a .proto file."""
    if field is None:
        return None
    kind = field.get("of", field["type"])
    if field["type"] == "map":
        kind = f"map<{field['key']['type']}, {field['value']['type']}>"
    label = "repeated " if field.get("repeated") else ""
    return f"{label}{kind} {field['name']} = {number}"
