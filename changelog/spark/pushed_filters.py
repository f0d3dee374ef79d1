"""Filters that Spark hands down, on the columns that a table has without decoding a value.

These are evaluated here, so Spark need not repeat them and says in its plan that they were pushed;
all others are left to it. Before that they narrow what is read: a key, to its bytes and, where the
application places keys by their hash, to one partition; a partition, to itself.

Of keys that are records their fields are compared, once keys are decoded and before values are.
Their bytes are not looked for: that a key has one encoding only is nothing that a manifest says.

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
from logstate.changelog.reading.lookup_keys import ENCODERS
from logstate.changelog.reading.tables import Column, StoreTable

#: filters compare these in Arrow as they do in Spark
_TYPES = (
    pa.string(),
    pa.binary(),
    pa.int32(),
    pa.int64(),
    pa.bool_(),
    pa.timestamp("us", tz="UTC"),
)
#: columns that need no value decoded, beside the key
_CHEAP = frozenset(
    {
        *("window_start", "window_end", "valid_from", "valid_to", "_sequence"),
        *("_partition", "_offset", "_timestamp", "_is_tombstone"),
    }
)
#: by name, because Spark 4.0 has none of them
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}


class Pushed(NamedTuple):
    """A filter that is evaluated here."""

    column: Column
    filter: Any

    def mask(self, block: Block) -> pa.Array:
        """True for the records that pass."""
        return pc.fill_null(_mask(self.filter, self.column.fill(block), self.column.arrow), False)


def accepted(filters: Sequence[Any], table: StoreTable, columns: Sequence[Column]) -> list[Pushed]:
    """Those of the filters that can be evaluated here."""
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
    """The only keys that can pass all filters, encoded; None if any key may."""
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
    """Those whose number passes all filters."""
    numbers = pa.array(partitions, pa.int32())
    for column, each in pushed:
        if column.name == "_partition":
            numbers = numbers.filter(pc.fill_null(_mask(each, numbers, pa.int32()), False))
    return list(numbers.to_pylist())


def _column_at(path: tuple[str, ...], known: Mapping[str, Column]) -> Column | None:
    """A column, or a field of one as a column of its own, named by its path; None for others."""
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
        # Unknown stays unknown: what is null is neither equal nor unequal.
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
    return [pa.scalar(_dated(value), arrow) for value in values]


def _dated(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
