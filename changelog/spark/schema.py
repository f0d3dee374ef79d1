"""Conversion of Arrow schemas to Spark schemas."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

_PLAIN = {
    pa.bool_(): spark.BooleanType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us", tz="UTC"): spark.TimestampType(),
}


def spark_schema(columns: pa.Schema) -> spark.StructType:
    """Return the Spark schema of an Arrow schema; all columns are nullable."""
    return _struct(list(columns))


def spark_type(arrow: pa.DataType) -> spark.DataType:
    """Return the Spark type of an Arrow type.

    >>> spark_type(pa.list_(pa.int64())).simpleString()
    'array<bigint>'
    """
    if pa.types.is_struct(arrow):
        return _struct([arrow.field(n) for n in range(arrow.num_fields)])
    if pa.types.is_map(arrow):
        return spark.MapType(spark_type(arrow.key_type), spark_type(arrow.item_type))
    if pa.types.is_list(arrow):
        return spark.ArrayType(spark_type(arrow.value_type))
    if pa.types.is_decimal(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    return _PLAIN[arrow]


def _struct(fields: list[pa.Field]) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(each.name, spark_type(each.type)) for each in fields]
    )
