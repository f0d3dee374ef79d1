"""Every scalar format is a column of its own in Arrow, and an expression in SQL."""

from __future__ import annotations

import pytest

from logstate.changelog.reading.stored_table import ENCODERS, encoded_keys
from logstate.changelog.reading.tables import StoreTable
from logstate.changelog.reading.types import SIMPLE
from logstate.changelog.spark.kafka_sql import EXPRESSIONS
from logstate.contracts.errors import ConfigError
from logstate.contracts.formats import SCALARS


def test_no_column_of_the_readers_lacks_a_format() -> None:
    """One that is missing would be shown as bytes, or be read whole to find one key."""
    of_one_encoding = {name for name, one in SCALARS.items() if one.is_equal_as_bytes}
    assert sorted(SCALARS.keys() - SIMPLE.keys()) == [], "columns in Arrow"
    assert sorted(SCALARS.keys() - EXPRESSIONS.keys()) == [], "expressions in SQL"
    assert sorted(of_one_encoding - ENCODERS.keys()) == [], (
        "keys that are looked for by their bytes"
    )


def test_a_number_is_no_key_of_bytes() -> None:
    table = StoreTable({"kind": "key_value", "key": None, "value": None})

    assert encoded_keys([b"a", bytearray(b"b")], table) == {b"a", b"b"}
    with pytest.raises(
        ConfigError, match="not a bytes like the store's keys: it must be bytes, found int"
    ):
        encoded_keys([5], table)
