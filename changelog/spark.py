"""Stores as Spark tables: ``spark.read.format("logstate")`` and ``spark.readStream``.

No jar is needed: the reader is a Python data source over the Kafka client and Arrow. The format is
known by name in a session from ``session()``, and in any session whose Python (``PYSPARK_PYTHON``)
has logstate installed as a wheel; elsewhere register ``LogstateDataSource``::

    from logstate.changelog.spark import parquet_view, session

    spark = session()
    spend = (
        spark.read.format("logstate")
        .option("bootstrap", "localhost:9092")
        .option("application", "shop")
        .option("store", "spend")
        .load()
    )
    changes = (
        spark.readStream.format("logstate")
        .options(bootstrap="localhost:9092", application="shop", store="spend")
        .option("readChangeFeed", "true")
        .load()
    )
    query = changes.writeStream.foreachBatch(parquet_view("/data/spend")).start()

Options (case does not matter, as in all of Spark):

========================  ======================================================================
bootstrap                 the brokers
application, store        whose store; or **topic**: a changelog, or any topic as key and value
cut                       ``latest-commit`` (default): every task at its newest commit; ``latest``:
                          everything committed; or offsets, ``{"topic": {"0": 42}}``, exclusive
partition                 only this changelog partition
includeTombstones         deleted keys too, with a null value and ``_is_tombstone``
includeMeta               also _partition, _offset, _timestamp, _headers, _is_tombstone
times                     ``timestamp`` (default) or ``ms``: the type of all time columns
keyFormat, valueFormat    string, int64, int32, float64, boolean, bytes, json: instead of what the
                          manifest says, or for a topic without one
pushKeyFilter             filter keys while reading; the session must have
                          spark.sql.python.filterPushdown.enabled=true (``session()`` sets it)
stallSeconds              give up after this long without progress (60)
readChangeFeed            changes instead of the table: change_type (update or delete), key, value,
                          _partition, _offset, _timestamp; always set it for readStream
startingOffsets           changes: ``earliest`` (default), ``latest`` or offsets
maxOffsetsPerTrigger      streams: bound of a micro-batch
failOnDataLoss            changes: ``false`` goes on where retention removed unread records
kafka.*                   configuration of the client, in librdkafka's names
schemaRegistry            its URL, where Avro is read through one and the URL needs credentials or
                          differs from here; schemaRegistry.*: configuration of its client
========================  ======================================================================

A table is fixed when it is loaded: count it twice and the answers agree. Load again to see newer
state. Tables of several stores belong together if they are read with one ``latest_cut()``.

Not done here: nothing is ever written to a changelog, from Spark or otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from logstate.changelog.spark_change_reader import ChangeReader, PastChangeReader
from logstate.changelog.spark_cut import ChangelogSource, end_positions, find_source, latest_cut
from logstate.changelog.spark_options import parse_options
from logstate.changelog.spark_session import session
from logstate.changelog.spark_table_reader import table_reader
from logstate.changelog.spark_tables import Column, spark_schema, table_of
from logstate.changelog.spark_views import ParquetView, parquet_view
from logstate.errors import ConfigError

__all__ = ["LogstateDataSource", "ParquetView", "latest_cut", "parquet_view", "session"]


class LogstateDataSource(DataSource):
    """The format ``logstate``. Spark makes it from the options; see the module for these."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._parsed = parse_options(options)
        # Found once, when the schema is asked for, and kept: a DataFrame means one table.
        self._source: ChangelogSource | None = None
        self._ends: dict[int, int] | None = None

    @classmethod
    def name(cls) -> str:
        return "logstate"

    def schema(self) -> StructType:
        return spark_schema(self._columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        source, ends = self._found(), self._cut_ends()
        if self._parsed.read_change_feed:
            return PastChangeReader(self._parsed, source, ends)
        return table_reader(self._parsed, source, ends)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if not self._parsed.read_change_feed:
            # Spark asks for the columns before it says whether it reads a table or a stream.
            raise ConfigError(
                "a stream of a store is the stream of its changes, whose columns differ from the "
                'table\'s: add .option("readChangeFeed", "true") to the readStream'
            )
        self._check(schema)
        return ChangeReader(self._parsed, self._found())

    def _columns(self) -> list[Column]:
        options = self._parsed
        table = table_of(options, self._found().entry)
        if options.read_change_feed:
            return table.change_columns(with_meta=options.include_meta)
        self._cut_ends()
        return table.batch_columns(
            with_tombstones=options.include_tombstones, with_meta=options.include_meta
        )

    def _found(self) -> ChangelogSource:
        if self._source is None:
            self._source = find_source(self._parsed)
        return self._source

    def _cut_ends(self) -> dict[int, int]:
        if self._ends is None:
            self._ends = end_positions(self._parsed, self._found())
        return self._ends

    def _check(self, schema: StructType) -> None:
        own = spark_schema(self._columns())
        if schema.names != own.names or schema.simpleString() != own.simpleString():
            raise ConfigError(
                f"the schema given is {schema.simpleString()}, and the store's is "
                f"{own.simpleString()}; leave .schema() out and select() what is wanted"
            )
