"""MERGE of a change feed into a table of Delta or Iceberg, for ``foreachBatch``.

The statement repeats safely: a change counts only where it is newer, by its offset, than
the row that it meets, so a batch that Spark repeats after a crash changes nothing.

The jars are those of the lakehouse, built for one Spark each. A session without them has no MERGE,
and is told which ones are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from logstate.changelog.reading.tables import KEY_BYTES
from logstate.changelog.spark.feed_source import record_in_table
from logstate.changelog.spark.kafka_sql import SCALA
from logstate.changelog.spark.views import (
    check_identity,
    latest_changes,
    refuse_versions,
    row_identity,
)
from logstate.contracts.errors import ConfigError

_FRESH = "logstate_fresh_changes"
#: what Spark says of a table that is none of a lakehouse
_NO_MERGE = "MERGE INTO TABLE"


def lake_packages(version: str = pyspark.__version__) -> tuple[str, str]:
    """What the jars of Delta and of Iceberg for a PySpark are called, without their own versions.

    Which versions there are, if any yet, the two projects tell.

    >>> lake_packages("4.2.1")
    ('io.delta:delta-spark_4.2_2.13', 'org.apache.iceberg:iceberg-spark-runtime-4.2_2.13')
    """
    release = ".".join(version.split(".")[:2])
    return (
        f"io.delta:delta-spark_{release}_{SCALA}",
        f"org.apache.iceberg:iceberg-spark-runtime-{release}_{SCALA}",
    )


def merge_into(table: str) -> Callable[[DataFrame, int], None]:
    """A function for ``changes.writeStream.foreachBatch(merge_into("lake.db.spend"))``.

    ``table`` is a table of Delta or Iceberg that has the columns of the change feed without
    ``change_type``, named as in SQL; ``_key``, where the feed has it, is binary. The feed is that
    of ``changeFeedFormat`` ``log``.

    The table's properties ``logstate.application``, ``.topic``, ``.topic_id`` and ``.partitions``
    record the source of the changes; a batch of another one raises RestoreError.

    The function raises ConfigError for a versioned store, and where the session has no MERGE for
    such a table, naming the jars that are missing; what else Spark says about it passes through.
    """

    def merge(changes: DataFrame, batch_id: int) -> None:
        refuse_versions(changes)
        if KEY_BYTES in changes.columns:
            columns = changes.sparkSession.table(table).columns
            check_identity(changes, columns, f"the table {table}")
        record_in_table(changes.sparkSession, table, batch_id, changes)
        # A name of its own: queries of one session may merge at the same time.
        fresh = f"{_FRESH}_{uuid.uuid4().hex}"
        latest_changes(changes).createOrReplaceTempView(fresh)
        session = changes.sparkSession
        try:
            session.sql(merge_statement(table, row_identity(changes), fresh))
        except PySparkException as error:
            if _NO_MERGE not in str(error):
                raise
            delta, iceberg = lake_packages()
            raise ConfigError(
                f"batch {batch_id} cannot be merged into {table}: it is no table of Delta or"
                f" Iceberg ({str(error).splitlines()[0]}). Start the session with the jars, in"
                f" spark.jars.packages {delta}:VERSION or {iceberg}:VERSION, and with the"
                " spark.sql.extensions of theirs, and create the table USING delta or USING"
                " iceberg. Without jars, parquet_view and bucketed_view keep a copy"
            ) from error
        finally:
            session.catalog.dropTempView(fresh)

    return merge


def merge_statement(table: str, identity: list[str], fresh: str = _FRESH) -> str:
    """The SQL that brings the newest changes of rows, a view ``fresh``, into a table.

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
