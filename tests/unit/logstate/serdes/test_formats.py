"""The same four questions to every format: round trip, change with state, bad bytes, a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import DeserializationError, StreamsBuilder, UpgradeError
from logstate.testing import TopologyTestDriver
from tests.unit.logstate.serdes.formats import FORMATS, Format, field_of

EACH = pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.name)
ADA = {"customer": "ada", "amount": 3, "note": "gift"}


def driver(serde: Any, folder: Path) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.table("in", key=str, value=serde, store="orders")
    return TopologyTestDriver(builder.build(), application_id="shop", state_dir=folder)


@EACH
@given(
    customer=st.text(max_size=8),
    amount=st.integers(-(2**63), 2**63 - 1),
    note=st.text(max_size=8),
    is_key=st.booleans(),
)
def test_what_is_written_is_read(
    format_: Format, customer: str, amount: int, note: str, is_key: bool
) -> None:
    serde = format_.order()
    value = format_.make(customer=customer, amount=amount, note=note)
    data = serde.serializer("t", is_key)(value)
    assert serde.deserializer("t", is_key)(data) == value
    assert serde.serializer("t", is_key)(value) == data


@EACH
def test_a_field_that_is_added_has_its_default_in_rows_that_are_there(
    format_: Format, tmp_path: Path
) -> None:
    with driver(format_.order(), tmp_path) as before:
        before.pipe("in", "ada", format_.make(**ADA))
    with driver(format_.added(), tmp_path) as after:
        row = after.store("orders").get("ada").value
        assert field_of(row, "country") == format_.default
        assert field_of(row, "amount") == 3
        after.pipe("in", "bob", format_.make_added(**ADA, country="fr"))
        assert field_of(after.store("orders").get("bob").value, "country") == "fr"
    with driver(format_.order(), tmp_path) as back:  # and is gone again
        assert field_of(back.store("orders").get("bob").value, "note") == "gift"


@EACH
def test_a_field_that_is_gone_is_skipped_in_rows_that_are_there(
    format_: Format, tmp_path: Path
) -> None:
    with driver(format_.order(), tmp_path) as before:
        before.pipe("in", "ada", format_.make(**ADA))
    with driver(format_.removed(), tmp_path) as after:
        row = after.store("orders").get("ada").value
        assert (field_of(row, "customer"), field_of(row, "amount")) == ("ada", 3)


@pytest.mark.parametrize(
    "format_", [one for one in FORMATS if one.renamed], ids=lambda one: one.name
)
def test_a_field_with_a_new_name_is_read_where_the_format_can_say_so(
    format_: Format, tmp_path: Path
) -> None:
    assert format_.renamed is not None
    with driver(format_.order(), tmp_path) as before:
        before.pipe("in", "ada", format_.make(**ADA))
    with driver(format_.renamed(), tmp_path) as after:
        assert field_of(after.store("orders").get("ada").value, "total") == 3


@pytest.mark.parametrize(
    "format_", [one for one in FORMATS if one.needed], ids=lambda one: one.name
)
def test_a_field_that_rows_lack_is_refused_before_anything_is_read(
    format_: Format, tmp_path: Path
) -> None:
    assert format_.needed is not None
    with driver(format_.order(), tmp_path) as before:
        before.pipe("in", "ada", format_.make(**ADA))
    with pytest.raises(UpgradeError, match="country"):
        driver(format_.needed(), tmp_path)


@EACH
def test_bytes_that_do_not_decode_are_an_error_with_their_place(format_: Format) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=format_.order()).to("out")
    refused = pytest.raises(DeserializationError, match="'in', partition 0, offset 0")
    with TopologyTestDriver(builder.build()) as driver_, refused:
        driver_.pipe_raw("in", b"k", format_.bad, 1)
