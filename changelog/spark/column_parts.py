"""Parts of a column's type: a Spark type, its Arrow twin, and what a value needs to fit.

What a table cannot express becomes the JSON text of that part (``TEXT``). Everything is nullable:
a field may be absent, and a schema is a promise of the writer only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark

Shape = Callable[[Any], Any]

TIMESTAMP = (spark.TimestampType(), pa.timestamp("us", tz="UTC"))
LONG = (spark.LongType(), pa.int64())
INTEGER = (spark.IntegerType(), pa.int32())
BOOLEAN = (spark.BooleanType(), pa.bool_())
STRING = (spark.StringType(), pa.string())
DOUBLE = (spark.DoubleType(), pa.float64())
BINARY = (spark.BinaryType(), pa.binary())

_encode_json = msgspec.json.Encoder().encode


class Part(NamedTuple):
    """The type of a value or of a part of it; ``shape`` None means it fits as it is."""

    spark: spark.DataType
    arrow: pa.DataType
    shape: Shape | None = None


def _encode_text(value: Any) -> str | None:
    return None if value is None else _encode_json(value).decode()


TEXT = Part(*STRING, _encode_text)
"""JSON text of whatever it is."""


def struct_part(fields: Mapping[str, Part], defaults: Mapping[str, Any]) -> Part:
    """A record with these fields; an absent one has its default."""
    shapes = [(name, part.shape) for name, part in fields.items() if part.shape is not None]

    def shape(value: Any) -> Any:
        if value is None:
            return None
        whole = {**defaults, **value}
        for name, change in shapes:
            whole[name] = change(whole.get(name))
        return whole

    return Part(
        spark.StructType([spark.StructField(name, part.spark) for name, part in fields.items()]),
        pa.struct([(name, part.arrow) for name, part in fields.items()]),
        shape if shapes or defaults else None,
    )


def list_part(item: Part) -> Part:
    """A list of these."""
    change = item.shape

    def shape(value: Any) -> Any:
        return None if value is None or change is None else [change(each) for each in value]

    return Part(
        spark.ArrayType(item.spark),
        pa.list_(pa.field("element", item.arrow)),
        shape if change else None,
    )


def map_part(item: Part) -> Part:
    """A map from text to these."""
    change = item.shape or (lambda value: value)

    def shape(value: Any) -> Any:  # Arrow takes maps as lists of pairs
        return None if value is None else [(name, change(each)) for name, each in value.items()]

    return Part(
        spark.MapType(spark.StringType(), item.spark), pa.map_(pa.string(), item.arrow), shape
    )
