"""The format ``logstate``: what Spark makes from the options of a read."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from logstate.changelog.spark.change_reader import ChangeReader, PastChangeReader
from logstate.changelog.spark.cut import ChangelogSource, end_positions, find_source
from logstate.changelog.spark.options import parse_options
from logstate.changelog.spark.table_reader import table_reader
from logstate.changelog.spark.tables import Column, spark_schema, table_of
from logstate.contracts.errors import ConfigError


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
