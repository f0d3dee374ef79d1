"""Reads a store as a Spark table: each Spark partition is one changelog partition, no shuffle.

`reading.table_scan`, which does not depend on Spark, reads the records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from logstate.changelog.reading.changelog_source import ChangelogSource
from logstate.changelog.reading.cut import Ends
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.reading.table_scan import PartitionScan, TableScan
from logstate.changelog.reading.tables import StoreTable, table_of
from logstate.changelog.spark.first_line import message_first
from logstate.changelog.spark.pushed_filters import (
    Pushed,
    accepted,
    wanted_keys,
    wanted_partitions,
)

_PUSHDOWN_PROCESS = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass
class TablePartition(InputPartition):
    """One changelog partition with its end offset."""

    scan: PartitionScan


class TableReader(DataSourceReader):
    """Plans the read on the driver and reads on executors."""

    def __init__(self, options: SourceOptions, source: ChangelogSource, ends: Ends) -> None:
        self._options = options
        self._source = source
        self._scan = TableScan(options, source, ends)

    @message_first
    def partitions(self) -> list[InputPartition]:
        return [TablePartition(each) for each in self._scan.plan()]

    @message_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TablePartition):  # Spark's placeholder for no partitions
            return iter(())
        return self._scan.read(partition.scan)


class FilteringTableReader(TableReader):
    """A reader that evaluates the filters that Spark pushes down.

    A separate class, because Spark refuses a reader with ``pushFilters`` unless
    ``spark.sql.python.filterPushdown.enabled`` is set.
    """

    _filters: Sequence[Any] = ()

    @message_first
    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        pushed = self._accepted_filters(filters)
        self._filters = [each.filter for each in pushed]
        self._scan.keys = wanted_keys(pushed, self._table().key_format)
        return [each for each in filters if not any(each is one for one in self._filters)]

    @message_first
    def partitions(self) -> list[InputPartition]:
        chosen = partial(wanted_partitions, self._accepted_filters(self._filters))
        return [TablePartition(each) for each in self._scan.plan(chosen)]

    @message_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TablePartition):
            return iter(())
        masks = [each.mask for each in self._accepted_filters(self._filters)]
        return self._scan.read(partition.scan, masks)

    def _table(self) -> StoreTable:
        return table_of(self._options, self._source.entry)

    def _accepted_filters(self, filters: Sequence[Any]) -> list[Pushed]:
        # Created in each process, because decoders cannot be sent to executors.
        options, table = self._options, self._table()
        columns = table.batch_columns(
            with_tombstones=options.include_tombstones, with_meta=options.include_meta
        )
        return accepted(filters, table, columns)


def table_reader(options: SourceOptions, source: ChangelogSource, ends: Ends) -> TableReader:
    """Return the reader for these options, up to the given ends."""
    wants = options.push_key_filter
    takes_filters = _hands_filters_down() if wants is None else wants
    cls = FilteringTableReader if takes_filters else TableReader
    return cls(options, source, ends)


def _hands_filters_down() -> bool:
    # If its setting is on, Spark creates the reader in a separate process, started with this module
    # or forked from a process that imported it. The setting is not visible in another way.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_PROCESS in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_PROCESS
