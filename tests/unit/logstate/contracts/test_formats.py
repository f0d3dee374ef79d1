"""Every format has what each reader needs of it; one that was forgotten somewhere is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from logstate.admin.described_encoders import encoder
from logstate.changelog.rows.deferred_values import deferred_values
from logstate.contracts.changelog_keys import WINDOWED
from logstate.contracts.formats import SCALARS, WITH_SCHEMA, ScalarFormat
from logstate.generated.draw import Draw
from logstate.generated.objects import DRAWN, maker_of
from logstate.serdes.built_in import session_windowed, windowed
from logstate.serdes.described import readable_decoder
from logstate.serdes.described_keys import READERS, lookup_key
from logstate.serdes.scalars import SCALAR_SERDES, string
from logstate.topology.plan.key_bytes import WRITTEN_BY, key_bytes_agree

each_scalar = pytest.mark.parametrize("one", SCALARS.values(), ids=lambda one: one.name)


def missing(column: Mapping[Any, Any], wanted: set[Any]) -> set[Any]:
    return wanted - set(column)


def test_no_column_lacks_a_format() -> None:
    """Where code is by format or by type, each of these has its own."""
    types = {one.type_ for one in SCALARS.values()}
    assert {
        "serdes": missing(SCALAR_SERDES, set(SCALARS)),
        "objects that are drawn": missing(DRAWN, types),
        "keys that are typed": missing(READERS, types - {bytes}),
        "bytes of a schema": missing(WRITTEN_BY, set(WITH_SCHEMA)),
    } == {
        "serdes": set(),
        "objects that are drawn": set(),
        "keys that are typed": set(),
        "bytes of a schema": set(),
    }


@each_scalar
def test_a_scalar_is_drawn_typed_shown_and_written_by_its_name_alone(one: ScalarFormat) -> None:
    described, serde = {"format": one.name, "schema": None}, SCALAR_SERDES[one.name]
    assert serde.describe() == described
    drawn = maker_of(serde)(Draw(1, 1))
    assert type(drawn) is one.type_
    data = serde.serializer("t", False)(drawn)
    assert encoder(described, is_key=False)(drawn) == data
    if one.name != "bytes":  # which people read as text
        shown = str(drawn) if one.type_ is UUID else drawn  # as text, like in JSON
        assert readable_decoder(described)(data) == shown
    typed = lookup_key(one.example, described).data
    assert typed is not None
    assert type(serde.deserializer("t", True)(typed)) is one.type_
    assert key_bytes_agree(described, {**described}) is True


@each_scalar
def test_a_scalar_waits_to_be_encoded(one: ScalarFormat) -> None:
    """A format that the write-behind does not know would be slow, and say nothing."""
    deferred = deferred_values(string, SCALAR_SERDES[one.name])
    assert deferred is not None
    assert deferred.type_ is one.type_


def test_keys_that_serdes_window_are_those_of_the_table() -> None:
    made = [windowed(str, 10), session_windowed(str)]
    assert [serde.describe()["format"] for serde in made] == list(WINDOWED)
