"""Filters that Spark pushes down, on columns that are available without decoding values.

The reader evaluates these filters, and Spark's plan lists them as pushed. Spark evaluates all
others. A filter on a key also limits the read to the key's bytes and, where the application
partitions keys by their hash, to one partition. A filter on a partition limits the read to it.

The fields of struct keys are compared after keys are decoded and before values are. A filter on
them does not limit the read to the key's bytes, because the manifest does not say that a key has
only one encoding.

A comparison with null is never true, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from logstate.changelog.reading.blocks import Block
from logstate.changelog.reading.stored_table import ENCODERS
from logstate.changelog.reading.tables import Column, StoreTable

#: types that Arrow compares in the same way as Spark
_TYPES = (
    pa.string(),
    pa.binary(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.bool_(),
    pa.timestamp("us", tz="UTC"),
)
#: columns other than the key that are available without decoding values
_CHEAP = frozenset(
    {
        *(
            "position",
            "map_key",
            "window_start",
            "window_end",
            "valid_from",
            "valid_to",
            "_sequence",
        ),
        *("_partition", "_offset", "_timestamp", "_is_tombstone"),
    }
)
#: by name, because Spark 4.0 does not have these classes
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}


class Pushed(NamedTuple):
    """A filter that the reader evaluates."""

    column: Column
    filter: Any

    def mask(self, block: Block) -> pa.Array:
        """Return true for the records that pass the filter."""
        return pc.fill_null(_mask(self.filter, self.column.fill(block), self.column.arrow), False)


def accepted(filters: Sequence[Any], table: StoreTable, columns: Sequence[Column]) -> list[Pushed]:
    """Return the filters that the reader can evaluate."""
    known = {column.name: column for column in columns if _is_cheap(column, table)}
    found = []
    for each in filters:
        inner = each.child if isinstance(each, spark.Not) else each
        path: tuple[str, ...] = getattr(inner, "attribute", ())
        column = _column_at(path, known)
        if column is not None and _is_understood(inner, column):
            found.append(Pushed(column, each))
    return found


def wanted_keys(pushed: Sequence[Pushed], key_format: str) -> frozenset[bytes] | None:
    """Return the encoded keys that can pass all filters, or None if any key can."""
    encode = ENCODERS.get(key_format)
    wanted: frozenset[bytes] | None = None
    for column, each in pushed:
        if column.name != "key" or encode is None:
            continue
        if not isinstance(each, spark.EqualTo | spark.EqualNullSafe | spark.In):
            continue
        values = each.value if isinstance(each, spark.In) else (each.value,)
        keys = frozenset(encode(value) for value in values if value is not None)
        wanted = keys if wanted is None else wanted & keys
    return wanted


def wanted_partitions(pushed: Sequence[Pushed], partitions: Sequence[int]) -> list[int]:
    """Return the partitions whose number passes all filters."""
    numbers = pa.array(partitions, pa.int32())
    for column, each in pushed:
        if column.name == "_partition":
            numbers = numbers.filter(pc.fill_null(_mask(each, numbers, pa.int32()), False))
    return list(numbers.to_pylist())


def _column_at(path: tuple[str, ...], known: Mapping[str, Column]) -> Column | None:
    """Return a column, or a field of a struct column as a column; None for unknown paths."""
    column = known.get(path[0]) if path else None
    if column is None or len(path) == 1:
        return column
    arrow = column.arrow
    for name in path[1:]:
        if not pa.types.is_struct(arrow) or arrow.get_field_index(name) < 0:
            return None
        arrow = arrow.field(name).type
    if arrow not in _TYPES:
        return None
    fill, fields = column.fill, list(path[1:])
    return Column(".".join(path), arrow, lambda block: pc.struct_field(fill(block), fields))


def _is_cheap(column: Column, table: StoreTable) -> bool:
    if column.name == "key":
        return table.key_format in ENCODERS or pa.types.is_struct(column.arrow)
    return column.name in _CHEAP and column.arrow in _TYPES


def _is_understood(each: Any, column: Column) -> bool:
    if isinstance(each, spark.IsNull | spark.IsNotNull):
        return True
    if type(each).__name__ not in {*_COMPARISONS, "EqualNullSafe", "In"}:
        return False
    if column.arrow not in _TYPES:
        return False
    try:
        _scalars(each, column.arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _mask(each: Any, values: pa.Array, arrow: pa.DataType) -> pa.Array:
    if isinstance(each, spark.Not):
        # Null stays null: a null value is neither equal nor unequal.
        return pc.invert(_mask(each.child, values, arrow))
    if isinstance(each, spark.IsNull):
        return values.is_null()
    if isinstance(each, spark.IsNotNull):
        return values.is_valid()
    scalars = _scalars(each, arrow)
    if isinstance(each, spark.In):
        found = pc.is_in(values, pa.array([one.as_py() for one in scalars if one.is_valid], arrow))
        unknown = values.is_null() if all(one.is_valid for one in scalars) else pc.invert(found)
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
    (scalar,) = scalars
    if isinstance(each, spark.EqualNullSafe):
        same = pc.fill_null(pc.equal(values, scalar), False)
        return same if scalar.is_valid else values.is_null()
    return _COMPARISONS[type(each).__name__](values, scalar)


def _scalars(each: Any, arrow: pa.DataType) -> list[pa.Scalar]:
    values = each.value if isinstance(each, spark.In) else (each.value,)
    return [pa.scalar(_filter_value(value), arrow) for value in values]


def _filter_value(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
