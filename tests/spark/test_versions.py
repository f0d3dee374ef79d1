"""Rows of several versions of a type in one column."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from logstate.changelog.reading.options import parse_options
from logstate.changelog.reading.types import column_type
from logstate.changelog.spark.schema import spark_type
from logstate.contracts.errors import ConfigError, SerdeError
from tests.campaigns.upgrades.topologies import VERSION_1, VERSION_2, Tally, Total

TARGET = "tests.campaigns.upgrades.topologies:VERSION_2"
OLD = VERSION_1.serializer("t", False)(Total(3))
NEW = VERSION_2.serializer("t", False)(Tally((3, 1)))
# The manifest is JSON, so that is what a reader sees.
DESCRIPTION = msgspec.json.decode(msgspec.json.encode(VERSION_2.describe()))


def test_the_column_has_the_type_of_the_current_version() -> None:
    assert spark_type(column_type(DESCRIPTION).arrow).simpleString() == "struct<counts:string>"


def test_rows_of_every_version_are_read_by_the_serde_of_the_application() -> None:
    column = column_type(DESCRIPTION, serde=TARGET)
    found = pa.array([column.decode(OLD), column.decode(NEW), None], column.arrow)
    assert found.to_pylist() == [{"counts": "[3,0]"}, {"counts": "[3,1]"}, None]


def test_without_it_a_row_of_an_earlier_version_says_what_is_missing() -> None:
    column = column_type(DESCRIPTION)
    assert column.decode(NEW) == {"counts": "[3,1]"}
    with pytest.raises(SerdeError, match='option valueSerde, as "module:attribute"'):
        column.decode(OLD)


@pytest.mark.parametrize(
    "target", ["tests.campaigns.upgrades.topologies", "nowhere:VERSION", "json:nothing"]
)
def test_a_serde_that_cannot_be_imported_is_named(target: str) -> None:
    with pytest.raises(ConfigError, match=f"valueSerde: '{target}' cannot be imported here"):
        column_type(DESCRIPTION, serde=target).decode(OLD)


def test_the_option_is_known() -> None:
    given = {"bootstrap": "b:1", "application": "a", "store": "s", "valueSerde": TARGET}
    assert parse_options(given).value_serde == TARGET
