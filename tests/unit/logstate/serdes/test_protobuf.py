"""Messages of Protobuf as values, keys and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import DeserializationError, SerdeError, StreamsBuilder, UpgradeError, serdes
from logstate.contracts.compatibility import Verdict, worst
from logstate.serdes.compatibility import serde_changes
from logstate.testing import TopologyTestDriver
from tests.unit.logstate.serdes.protobuf_messages import Click, Item, classes, field, total

TEXT = st.text(max_size=5)
FLAT = st.builds(
    Click,
    user=TEXT,
    count=st.integers(-(2**63), 2**63 - 1),
    tags=st.lists(TEXT, max_size=3),
    kind=st.sampled_from([0, 1, 7]),
    note=st.one_of(st.none(), TEXT),
    prices=st.dictionaries(TEXT, st.floats(allow_nan=False)),
    items=st.lists(st.builds(Item, sku=st.binary(max_size=3)), max_size=2),
)
CLICKS = st.one_of(FLAT, st.builds(Click, user=TEXT, inner=FLAT))


def round_trip(value: Any, *, is_key: bool = False) -> Any:
    serde = serdes.serde_of(type(value), what="a value")
    return serde.deserializer("t", is_key)(serde.serializer("t", is_key)(value))


@given(CLICKS)
def test_what_is_written_is_read(click: Any) -> None:
    assert round_trip(click) == click
    assert round_trip(click, is_key=True) == click


@given(st.permutations([(name, 1.0) for name in "abcd"]))
def test_equal_keys_are_equal_bytes(prices: list[tuple[str, float]]) -> None:
    write = serdes.protobuf(Click).serializer("t", True)
    assert write(Click(prices=dict(prices))) == write(Click(prices=dict(sorted(prices))))


def test_another_object_than_the_message_is_refused() -> None:
    write = serdes.serde_of(Click, what="a value").serializer("t", False)
    with pytest.raises(SerdeError, match="Found Item where the serde protobuf"):
        write(Item())
    with pytest.raises(SerdeError, match="is not the class of a Protobuf message"):
        serdes.protobuf(dict)


def test_a_message_goes_through_a_topology_and_its_store() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=Click)
    counts = clicks.group_by_key().aggregate(
        Click,
        lambda seen, click: Click(user=click.user, count=seen.count + click.count),
        value=Click,
        store="seen",
    )
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("clicks", "a", Click(user="ada", count=3))
        driver.pipe("clicks", "a", Click(user="ada", count=4))
        assert driver.store("seen").get("a").value == Click(user="ada", count=7)
        driver.pipe("clicks", "b", Click())  # no bytes at all, and yet a row
        assert driver.store("seen").get("b").value == Click()
        assert [value.count for _, value in driver.read("out", key=str, value=Click)] == [3, 7, 0]


def test_bytes_that_are_no_message_are_an_error_with_their_place() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=Click).to("out")
    refused = pytest.raises(DeserializationError, match="'in', partition 0, offset 0")
    with TopologyTestDriver(builder.build()) as driver, refused as caught:
        driver.pipe_raw("in", b"k", b"\x00\x00\x00\x00\x07\x02\x0a\x01a", 1)
    assert "is registry= missing?" in str(caught.value)
    assert "shop.Click" in str(caught.value)


# --- when a message changes -----------------------------------------------------------------------

TOTAL = total((1, "sum", "int64"), (2, "where", "string"))


def verdict(before: Any, after: Any, renamed: dict[str, str] | None = None) -> str:
    one = serdes.protobuf(before).describe()
    other = serdes.protobuf(after, renamed=renamed).describe()
    return str(worst(serde_changes("store 's'", "value", one, other)))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (TOTAL, "same"),
        (total((1, "sum", "int64"), (2, "where", "string"), name="Other"), "same"),
        (total((1, "sum", "int64"), (2, "where", "string"), (3, "n", "bool")), "compatible"),
        (total((1, "sum", "int64")), "compatible"),
        (total((1, "sum", "int64"), (2, "place", "string")), "decision"),
        (total((1, "sum", "int64"), (2, "where", "bytes")), "compatible"),
        (total((1, "sum", "int64"), (2, "count", "int64")), "refused"),
        (total((1, "sum", "sint64"), (2, "where", "string")), "refused"),
        (total((1, "sum", "int32"), (2, "where", "string")), "refused"),
        (total((1, "where", "string"), (2, "sum", "int64")), "refused"),
        (total((1, "sum", "int64"), (2, "where", "string"), repeated=True), "refused"),
    ],
)
def test_messages_are_compared_by_the_numbers_of_their_fields(after: Any, expected: str) -> None:
    assert verdict(TOTAL, after) == expected


def test_the_user_says_that_only_a_name_is_new() -> None:
    after = total((1, "sum", "int64"), (2, "place", "string"))
    assert verdict(TOTAL, after, {"where": "place"}) == "compatible"
    assert verdict(TOTAL, after, {"sum": "place"}) == "decision"
    assert verdict(after, after, {"where": "place"}) == "same"


def with_enum(*values: tuple[str, int], syntax: str = "proto3") -> Any:
    def fill(file: Any) -> None:
        kind = file.enum_type.add(name="Kind")
        for name, number in values:
            kind.value.add(name=name, number=number)
        message = file.message_type.add(name="Total")
        field(message, 1, "kind", ".shop.Kind", enum=True)
        entry = message.nested_type.add(name="KindsEntry")
        entry.options.map_entry = True
        field(entry, 1, "key", "string")
        field(entry, 2, "value", ".shop.Kind", enum=True)
        field(message, 2, "kinds", ".shop.Total.KindsEntry", repeated=True)

    return classes(fill, syntax=syntax)["Total"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (with_enum(("A", 0), ("B", 1), ("C", 2)), "same"),
        (with_enum(("A", 0)), "compatible"),
        (with_enum(("A", 0), syntax="proto2"), "refused"),
        (with_enum(("A", 0), ("X", 1)), "decision"),
        (with_enum(("B", 0), ("A", 1)), "refused"),
    ],
)
def test_the_values_of_an_enum_are_compared_by_their_numbers(after: Any, expected: str) -> None:
    assert verdict(with_enum(("A", 0), ("B", 1)), after) == expected


def in_oneof(*together: str) -> Any:
    def fill(file: Any) -> None:
        message = file.message_type.add(name="Total")
        if together:
            message.oneof_decl.add(name="either")
        for number, name in enumerate("abc", 1):
            options = {"oneof_index": 0} if name in together else {}
            field(message, number, name, "string", **options)

    return classes(fill)["Total"]


def test_fields_that_could_be_set_together_must_not_come_to_exclude_each_other() -> None:
    assert verdict(in_oneof(), in_oneof("a", "b")) == "refused"
    assert verdict(in_oneof("a", "b"), in_oneof("a", "b", "c")) == "refused"
    assert verdict(in_oneof("a", "b", "c"), in_oneof("a", "b")) == "same"


def test_a_field_that_rows_lack_must_not_be_required() -> None:
    before = total((1, "sum", "int64"), syntax="proto2")
    after = total((1, "sum", "int64"), (2, "n", "int64"), syntax="proto2", label=2)
    changes = serde_changes(
        "s", "value", serdes.protobuf(before).describe(), serdes.protobuf(after).describe()
    )
    assert [c.part for c in changes if c.verdict is Verdict.REFUSED] == ["value.sum", "value.n"]


def test_a_message_that_holds_itself_is_compared_once() -> None:
    assert verdict(Click, Click) == "same"
    assert verdict(Click, total((1, "user", "string"), (6, "inner", "string"))) == "refused"


def driver(message: Any, folder: Path, **options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    value = serdes.protobuf(message, **options)
    builder.table("in", key=str, value=value, store="spent")
    return TopologyTestDriver(builder.build(), application_id="shop", state_dir=folder)


def test_rows_that_are_there_are_read_with_fields_added_gone_and_renamed(tmp_path: Path) -> None:
    since = total((1, "sum", "int64"), (2, "where", "string"), (3, "since", "string"))
    fewer = total((1, "sum", "int64"), (3, "since", "string"))
    other = total((1, "amount", "int64"), (3, "since", "string"))
    with driver(TOTAL, tmp_path) as first:
        first.pipe("in", "ada", TOTAL(sum=3, where="here"))
    with driver(since, tmp_path) as second:
        assert second.store("spent").get("ada").value == since(sum=3, where="here")
    with driver(fewer, tmp_path) as third:
        row = third.store("spent").get("ada").value
        assert row.sum == 3
        third.pipe("in", "ada", row)  # what the class does not know stays in the bytes
    with pytest.raises(UpgradeError, match=r"renamed={'sum': 'amount'}"):
        driver(other, tmp_path)
    with driver(other, tmp_path, renamed={"sum": "amount"}) as fourth:
        assert fourth.store("spent").get("ada").value.amount == 3


def test_a_number_that_is_used_again_is_refused_where_there_are_rows(tmp_path: Path) -> None:
    with driver(TOTAL, tmp_path) as first:
        first.pipe("in", "ada", TOTAL(sum=3, where="here"))
    with pytest.raises(UpgradeError, match=r"value\.where: stored string where = 2, declared int"):
        driver(total((1, "sum", "int64"), (2, "visits", "int64")), tmp_path)
