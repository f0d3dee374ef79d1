"""The format ``logstate``, which Spark creates from the options of a read or write."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from logstate.changelog.cuts.logs import log_reader
from logstate.changelog.reading.changelog_source import ChangelogSource, find_source
from logstate.changelog.reading.cut import Ends, ends_of_read
from logstate.changelog.reading.options import parse_options
from logstate.changelog.reading.tables import arrow_schema, table_of
from logstate.changelog.spark.admission import HAS_READ_LIMITS
from logstate.changelog.spark.change_batches import change_schema
from logstate.changelog.spark.change_reader import (
    ChangeReader,
    HistoricalChangeReader,
    start_of_query,
)
from logstate.changelog.spark.feed_source import FeedSource, with_source
from logstate.changelog.spark.first_line import message_first
from logstate.changelog.spark.refused_stream import RefusedStream
from logstate.changelog.spark.schema import spark_schema
from logstate.changelog.spark.table_reader import table_reader
from logstate.contracts.errors import ConfigError, LogstateError


class LogstateDataSource(DataSource):
    """The format ``logstate``; the package describes its options."""

    @message_first
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._parsed = parse_options(options)
        # Resolved once, with the schema, because a DataFrame is fixed to one table and one cut.
        self._source: ChangelogSource | None = None
        self._ends: Ends | None = None

    @classmethod
    def name(cls) -> str:
        return "logstate"

    @message_first
    def schema(self) -> StructType:
        found = spark_schema(self._columns())
        if self._parsed.read_change_feed:
            source = self._changelog_source()
            start = start_of_query(self._parsed, source)
            return with_source(found, FeedSource.of(self._parsed, source), start)
        return found

    @message_first
    def reader(self, schema: StructType) -> DataSourceReader:
        if self._parsed.batch_id or self._parsed.key_serde:
            raise ConfigError('"batchId" and "keySerde" are for writing; leave them out of a read')
        self._check(schema)
        source, ends = self._changelog_source(), self._cut_ends()
        if self._parsed.read_change_feed:
            return HistoricalChangeReader(self._parsed, source, ends.positions)
        return table_reader(self._parsed, source, ends)

    @message_first
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        log_reader()  # raises if the client is missing; only writing imports the rest of it
        # Loaded by name: reading tables needs nothing of the package that changes them.
        sink = importlib.import_module("logstate.admin.spark_sink")
        return cast(DataSourceWriter, sink.StoreWriter(self._parsed, schema, overwrite=overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            return self._stream_reader(schema)
        except LogstateError as error:
            return RefusedStream(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        if not self._parsed.read_change_feed:
            # Spark requests the schema before it requests the reader of a table or of a stream.
            raise ConfigError(
                "a stream of a store is the stream of its changes, whose columns differ from the "
                'table\'s: add .option("readChangeFeed", "true") to the readStream'
            )
        is_bounded = self._parsed.max_offsets_per_trigger is not None or self._parsed.admits_commits
        if is_bounded and not HAS_READ_LIMITS:
            raise ConfigError(
                "maxOffsetsPerTrigger needs Spark 4.2, as other bounds do, and this is "
                f"{pyspark.__version__}, whose streams take all available changes; leave it out, "
                "or read with a newer Spark"
            )
        self._check(schema)
        return ChangeReader(self._parsed, self._changelog_source())

    def _columns(self) -> pa.Schema:
        options = self._parsed
        table = table_of(options, self._changelog_source().entry)
        if options.read_change_feed:
            return change_schema(options, table)
        self._cut_ends()
        columns = table.batch_columns(
            with_tombstones=options.include_tombstones, with_meta=options.include_meta
        )
        return arrow_schema(columns)

    def _changelog_source(self) -> ChangelogSource:
        if self._source is None:
            self._source = find_source(self._parsed)
        return self._source

    def _cut_ends(self) -> Ends:
        if self._ends is None:
            self._ends = ends_of_read(self._parsed, self._changelog_source())
        return self._ends

    def _check(self, schema: StructType | pa.Schema) -> None:
        own = spark_schema(self._columns())
        if isinstance(schema, pa.Schema):  # what Sail passes
            schema = from_arrow_schema(schema)
        if schema.names != own.names or schema.simpleString() != own.simpleString():
            raise ConfigError(
                f"the schema given is {schema.simpleString()}, and the store's is "
                f"{own.simpleString()}; leave .schema() out and select() the columns"
            )
