"""Types that change in ways which two schemas hardly show."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from logstate.contracts.compatibility import SpecChange, Verdict, worst
from logstate.serdes import json_of, json_schema_of
from logstate.serdes.compatibility import serde_changes
from logstate.serdes.json_schema import NAMES_OF_ITEMS, without_names


def of_fields(name: str, *fields: Any, **settings: Any) -> dict[str, Any]:
    """The description of a struct with these fields."""
    return json_of(msgspec.defstruct(name, fields, frozen=True, **settings)).describe()


def changes(stored: Any, declared: Any, part: str = "value") -> list[SpecChange]:
    return serde_changes("store 's'", part, stored, declared)


@pytest.mark.parametrize("name", ["title", "description", "format", "$defs", "$ref"])
def test_a_field_that_is_called_as_a_word_of_schemas_is_compared_as_any_other(name: str) -> None:
    fields = [(name, int)], [(name, str)]
    if name.startswith("$"):
        fields = [("n", int)], [("n", str)]
        stored, declared = (of_fields("A", *one, rename={"n": name}) for one in fields)
    else:
        stored, declared = (of_fields("A", *one) for one in fields)
    assert worst(changes(stored, declared)) is Verdict.REFUSED
    assert worst(changes(stored, declared, "key")) is Verdict.REFUSED


def test_names_of_classes_and_what_is_said_about_them_are_not_compared() -> None:
    class Old(msgspec.Struct):
        """What was said."""

        title: str

    class New(msgspec.Struct):
        title: str

    assert changes(json_of(Old).describe(), json_of(New).describe(), "key") == []


def test_a_field_in_a_default_is_data() -> None:
    defaults = [msgspec.field(default_factory=lambda n=n: {"title": n}) for n in (1, 2)]
    stored, declared = (of_fields("A", ("at", dict[str, int], one)) for one in defaults)
    one, other = stored["schema"], declared["schema"]
    for schema, number in ((one, 1), (other, 2)):  # msgspec says no default that a function makes
        schema["$defs"]["A"]["properties"]["at"]["default"] = {"title": number}
    assert worst(changes(stored, declared)) is Verdict.COMPATIBLE


def test_a_text_that_becomes_a_time_is_checked_when_it_is_read() -> None:
    stored, declared = of_fields("A", ("at", str)), of_fields("A", ("at", datetime))
    (change,) = changes(stored, declared)
    assert (change.verdict, change.part) == (Verdict.COMPATIBLE, "value.at")
    assert "are checked one by one" in change.meaning
    (change,) = changes(stored, declared, "key")
    assert change.verdict is Verdict.COMPATIBLE
    assert "did not record that a text is a time" in change.meaning


def test_a_time_that_becomes_a_text_is_refused() -> None:
    stored, declared = of_fields("A", ("at", datetime)), of_fields("A", ("at", str))
    assert worst(changes(stored, declared)) is Verdict.REFUSED
    assert worst(changes(stored, declared, "key")) is Verdict.REFUSED


def test_a_key_with_another_field_beside_a_time_that_was_not_noted_is_refused() -> None:
    stored = of_fields("A", ("at", str), ("n", int))
    declared = of_fields("A", ("at", datetime), ("n", str))
    assert worst(changes(stored, declared, "key")) is Verdict.REFUSED


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ((1, 2), ("1", "2"), Verdict.REFUSED),
        (("1", "2"), (1, 2), Verdict.REFUSED),
        ((1, 2), (1, 2, "3"), Verdict.COMPATIBLE),
        (("a", "b"), ("b", "a", "c"), Verdict.COMPATIBLE),
        (("a", "b"), ("b",), Verdict.REFUSED),
    ],
)
def test_values_of_an_enum_are_those_of_their_types(before: Any, now: Any, verdict: Any) -> None:
    stored, declared = (of_fields("A", ("one", Literal[values])) for values in (before, now))
    assert worst(changes(stored, declared)) is verdict


class Entry(NamedTuple):
    credit: int
    debit: int


class Exchanged(NamedTuple):
    debit: int
    credit: int


CREDIT, DEBIT = ("credit", int), ("debit", int)


def of_array(*fields: Any) -> dict[str, Any]:
    return of_fields("Entry", *fields, array_like=True)


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        (of_array(CREDIT, DEBIT), of_array(DEBIT, CREDIT)),
        (json_of(Entry).describe(), json_of(Exchanged).describe()),
        (json_of(list[Entry]).describe(), json_of(list[Exchanged]).describe()),
        (of_array(CREDIT, DEBIT), of_array(DEBIT, ("owed", int), CREDIT)),
    ],
)
def test_fields_of_an_array_keep_their_places(stored: Any, declared: Any) -> None:
    found = changes(stored, declared)
    assert worst(found) is Verdict.REFUSED
    assert worst(changes(stored, declared, "key")) is Verdict.REFUSED


def test_a_reorder_is_told_with_what_to_do() -> None:
    (change,) = changes(of_array(CREDIT, DEBIT), of_array(DEBIT, CREDIT))
    assert (change.stored, change.declared) == (["credit", "debit"], ["debit", "credit"])
    assert "add fields at the end" in change.meaning


def test_fields_may_be_added_at_the_end_of_an_array() -> None:
    stored = of_array(CREDIT, DEBIT)
    more = of_array(CREDIT, DEBIT, ("note", str, ""))
    assert worst(changes(stored, more)) <= Verdict.COMPATIBLE


def test_what_earlier_versions_stored_of_an_array_says_nothing_of_its_order() -> None:
    stored = {"format": "json", "schema": without_names(of_array(CREDIT, DEBIT)["schema"])}
    assert changes(stored, of_array(DEBIT, CREDIT), "key") == []


def test_a_registry_is_told_of_no_names_of_items() -> None:
    text = json_schema_of(Entry, registry="http://localhost:1").text
    assert "prefixItems" in text
    assert NAMES_OF_ITEMS not in text
    assert NAMES_OF_ITEMS in str(json_of(Entry).describe())


ONE, TWO = ("one", int, 0), ("two", int, 0)
ORDERED = [of_fields("A", *order) for order in ((ONE, TWO), (TWO, ONE))]


def test_keys_keep_the_order_of_their_fields_also_of_those_with_defaults() -> None:
    stored, declared = ORDERED
    assert worst(changes(stored, declared, "key")) is Verdict.REFUSED
    assert changes(stored, declared) == []
    assert changes(stored, stored, "key") == []


def test_what_earlier_versions_stored_of_an_object_says_nothing_of_its_order() -> None:
    stored, declared = ORDERED
    earlier = {"format": "json", "schema": without_names(stored["schema"])}
    assert changes(earlier, declared, "key") == []
