"""MERGE of a change feed into a table of Delta or Iceberg, for ``foreachBatch``, and its target.

The statement is idempotent: a change is applied only if its offset is higher than that of the
existing row, so a batch that Spark repeats after a crash changes nothing.

Delta and Iceberg publish a jar for each Spark release. A session without the jar has no MERGE, and
the error names the missing jar.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from logstate.changelog.spark.feed_source import record_in_table
from logstate.changelog.spark.json_expressions import literal, quoted, sql_type
from logstate.changelog.spark.kafka_sql import SCALA
from logstate.changelog.spark.views import (
    check_identity,
    latest_changes,
    refuse_maps,
    refuse_versions,
    row_identity,
)
from logstate.contracts.errors import ConfigError

_FRESH = "logstate_fresh_changes"
#: part of Spark's error for a table of another format
_NO_MERGE = "MERGE INTO TABLE"
#: conditions of Spark's errors where the jars of a lakehouse or its catalog are missing
_NO_JARS = frozenset({"DATA_SOURCE_NOT_FOUND", "CATALOG_NOT_FOUND"})
_FORMATS = ("delta", "iceberg")
_CHANGE_TYPE = "change_type"
_PARTITION = "_partition"
#: ``_partition`` in tables of Iceberg, which reserves that name for a metadata column
ICEBERG_PARTITION = "_changelog_partition"


def lake_packages(version: str = pyspark.__version__) -> tuple[str, str]:
    """Return the coordinates of the Delta and Iceberg jars for a PySpark, without versions.

    The two projects document which versions they have published for it, if any.

    >>> lake_packages("4.2.1")
    ('io.delta:delta-spark_4.2_2.13', 'org.apache.iceberg:iceberg-spark-runtime-4.2_2.13')
    """
    release = ".".join(version.split(".")[:2])
    return (
        f"io.delta:delta-spark_{release}_{SCALA}",
        f"org.apache.iceberg:iceberg-spark-runtime-{release}_{SCALA}",
    )


def create_merge_target(
    changes: DataFrame,
    table: str,
    *,
    using: str = "delta",
    properties: Mapping[str, str] | None = None,
) -> None:
    """Create the target table of ``merge_into`` if it does not exist.

    ``changes`` is the change feed, streaming or not, of ``changeFeedFormat`` ``log``. The table
    gets its columns without ``change_type``; in Iceberg, which reserves the name ``_partition``,
    that column is ``_changelog_partition``. ``table`` is a name as in SQL, ``using`` is
    ``delta`` or ``iceberg``, and ``properties`` are table properties. An existing table stays
    unchanged. The function reads no changes::

        create_merge_target(changes, "lake.db.spend", using="iceberg")
        changes.writeStream.foreachBatch(merge_into("lake.db.spend")).start()

    Raises:
        ConfigError: the store is versioned; ``changes`` is not such a feed, or has maps in its keys
            and no ``_key``; ``using`` is another format; the session has no jars or no catalog for
            the table; or the table exists and its columns differ.
    """
    if using not in _FORMATS:
        raise ConfigError(f"using is {using!r}; a target of MERGE is {' or '.join(_FORMATS)}")
    schema = target_schema(changes, using)
    spark = changes.sparkSession
    try:
        spark.sql(create_statement(table, schema, using, properties or {}))
        check_columns(table, spark.table(table).schema, schema)
    except Exception as error:  # the class is py4j's own where Spark raises a Java exception
        if not any(condition in str(error) for condition in _NO_JARS):
            raise
        raise ConfigError(
            f"the table {table} cannot be created as a table of {using}:"
            f" {str(error).splitlines()[0]}. {_jar_advice()}"
        ) from error


def target_schema(changes: DataFrame, using: str = "delta") -> StructType:
    """Return the columns of a target of ``merge_into`` for a change feed.

    Raises ConfigError for a frame that is not a change feed which can be merged.
    """
    refuse_versions(changes)
    needed = (_CHANGE_TYPE, _PARTITION, "_offset")
    if missing := [name for name in needed if name not in changes.columns]:
        raise ConfigError(
            f"the frame has no column {missing[0]}, so it is not a change feed that can be merged;"
            f" its columns are {', '.join(changes.columns)}. Read the store with"
            " readChangeFeed=true and changeFeedFormat=log, and keep these columns"
        )
    refuse_maps(changes, row_identity(changes))
    if using == "iceberg":
        changes = changes.withColumnRenamed(_PARTITION, ICEBERG_PARTITION)
    return StructType([field for field in changes.schema if field.name != _CHANGE_TYPE])


def create_statement(
    table: str, schema: StructType, using: str, properties: Mapping[str, str]
) -> str:
    r"""Return the SQL that creates a table unless it exists.

    >>> from pyspark.sql.types import LongType, MapType, StringType
    >>> schema = StructType().add("key", MapType(StringType(), LongType())).add("_key", "binary")
    >>> print(create_statement("spend", schema, "delta", {"owner": "O'Hara"}))
    CREATE TABLE IF NOT EXISTS spend (`key` map<string, bigint>, `_key` binary)
    USING delta TBLPROPERTIES ('owner' = 'O\'Hara')
    """
    columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in schema)
    statement = f"CREATE TABLE IF NOT EXISTS {table} ({columns})\nUSING {using}"
    if properties:
        pairs = (f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        statement += f" TBLPROPERTIES ({', '.join(pairs)})"
    return statement


def check_columns(table: str, found: StructType, wanted: StructType) -> None:
    """Raise ConfigError if an existing table does not have the columns of the change feed."""
    types = {field.name: field.dataType.simpleString() for field in found}
    differences = [
        f"{field.name} is {types.get(field.name, 'missing')}, not {field.dataType.simpleString()}"
        for field in wanted
        if types.get(field.name) != field.dataType.simpleString()
    ]
    named = {field.name for field in wanted}
    differences += [f"{name} is not in the feed" for name in types if name not in named]
    if differences:
        raise ConfigError(
            f"the table {table} exists, and its columns are not those of the change feed:"
            f" {'; '.join(differences)}. It was created for another store, or the types of the"
            " store have changed since. Create a target with another name, and start the query"
            " with a new checkpoint"
        )


def _jar_advice() -> str:
    delta, iceberg = lake_packages()
    return (
        f"Start the session with the jars, in spark.jars.packages {delta}:VERSION or"
        f" {iceberg}:VERSION, and with their spark.sql.extensions and spark.sql.catalog settings."
        " Without jars, parquet_view and bucketed_view keep a copy"
    )


def merge_into(table: str) -> Callable[[DataFrame, int], None]:
    """Return a function for ``changes.writeStream.foreachBatch(merge_into("lake.db.spend"))``.

    ``table`` is a table of Delta or Iceberg that has the columns of the change feed without
    ``change_type``, named as in SQL; ``create_merge_target`` creates it. The feed is that of
    ``changeFeedFormat`` ``log``. In a table of Iceberg ``_partition`` is ``_changelog_partition``.

    The table's properties ``logstate.application``, ``.topic``, ``.topic_id`` and ``.partitions``
    record the source of the changes; a batch of another one raises RestoreError, and so does a new
    checkpoint that starts beyond the changes that the table has.

    The function raises ConfigError for a versioned store, and if the session has no MERGE for the
    table, with the names of the missing jars. Other errors of Spark are raised unchanged.
    """

    def merge(changes: DataFrame, batch_id: int) -> None:
        refuse_versions(changes)
        session = changes.sparkSession
        columns = session.table(table).columns
        check_identity(changes, columns, f"the table {table}")
        is_iceberg = ICEBERG_PARTITION in columns
        partition = ICEBERG_PARTITION if is_iceberg else _PARTITION
        record_in_table(session, table, batch_id, changes, partition=partition)
        identity, latest = row_identity(changes), latest_changes(changes)
        if is_iceberg:
            identity = [ICEBERG_PARTITION if name == _PARTITION else name for name in identity]
            latest = latest.withColumnRenamed(_PARTITION, ICEBERG_PARTITION)
        # A unique name, because queries of one session may merge at the same time.
        fresh = f"{_FRESH}_{uuid.uuid4().hex}"
        latest.createOrReplaceTempView(fresh)
        try:
            session.sql(merge_statement(table, identity, fresh))
        except PySparkException as error:
            if _NO_MERGE not in str(error):
                raise
            raise ConfigError(
                f"batch {batch_id} cannot be merged into {table}: it is not a table of Delta or"
                f" Iceberg ({str(error).splitlines()[0]}). Create it with create_merge_target."
                f" {_jar_advice()}"
            ) from error
        finally:
            session.catalog.dropTempView(fresh)

    return merge


def merge_statement(table: str, identity: list[str], fresh: str = _FRESH) -> str:
    """Return the SQL that merges the view ``fresh``, the newest changes of rows, into a table.

    >>> print(merge_statement("spend", ["key", "_partition"], "fresh"))
    MERGE INTO spend AS old USING fresh AS new
    ON old.`key` <=> new.`key` AND old.`_partition` <=> new.`_partition`
    WHEN MATCHED AND new._offset <= old._offset THEN UPDATE SET old._offset = old._offset
    WHEN MATCHED AND new.change_type = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND new.change_type = 'update' THEN INSERT *
    """
    same = " AND ".join(f"old.`{name}` <=> new.`{name}`" for name in identity)
    return "\n".join(
        [
            f"MERGE INTO {table} AS old USING {fresh} AS new",
            f"ON {same}",
            "WHEN MATCHED AND new._offset <= old._offset THEN UPDATE SET old._offset = old._offset",
            "WHEN MATCHED AND new.change_type = 'delete' THEN DELETE",
            "WHEN MATCHED THEN UPDATE SET *",
            "WHEN NOT MATCHED AND new.change_type = 'update' THEN INSERT *",
        ]
    )
