"""A store at one cut as a stream of Arrow batches. Each read of the stream reads the log again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa

from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.reading.changelog_source import ChangelogSource, find_source
from logstate.changelog.reading.cut import Ends, ends_of_read
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.reading.table_scan import TableScan
from logstate.changelog.reading.tables import StoreTable, arrow_schema, table_of
from logstate.contracts.errors import ConfigError, SerdeError
from logstate.contracts.formats import ORDERED, SCALARS
from logstate.serdes.ordered_serde import described_ordered
from logstate.serdes.scalars import SCALAR_SERDES


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):  # of 5, bytes() makes five zeros
        raise TypeError(f"it must be bytes, found {type(value).__name__}: {value!r:.100}")
    return bytes(value)


def _identifier(value: Any) -> bytes:
    return (value if isinstance(value, UUID) else UUID(value)).bytes


#: formats in which a value has one encoding only; of JSON and floating point it may have several
ENCODERS: dict[str, Callable[[Any], bytes]] = {
    name: SCALAR_SERDES[name].serializer("", True)
    for name, one in SCALARS.items()
    if one.is_equal_as_bytes
} | {"bytes": _bytes, "uuid_bytes": _identifier}  # Spark has byte arrays, and no UUID


def encoded_keys(keys: Iterable[Any], table: StoreTable) -> frozenset[bytes]:
    """The bytes of these keys. Raises ConfigError if the store's format has no one encoding."""
    encode = ENCODERS.get(table.key_format)
    if table.key_format == ORDERED:
        encode = described_ordered(table.key_description).serializer("", True)
    if encode is None:
        raise ConfigError(
            f"keys are of the format {table.key_format!r}, in which one key can be written in "
            "several ways; read all of them and filter the table"
        )
    try:
        return frozenset(map(encode, keys))
    except (TypeError, struct.error, AttributeError, SerdeError) as error:
        raise ConfigError(
            f"keys= has a key that is not a {table.key_format} like the store's keys: {error}"
        ) from error


class StoredTable:
    """The result of ``logstate.read``, for every consumer of an Arrow stream.

    That is the `Arrow PyCapsule interface`: ``pandas.DataFrame.from_arrow(table)``,
    ``polars.DataFrame(table)``, ``duckdb.sql("from table")``, ``pyarrow.table(table)``.
    """

    def __init__(self, options: SourceOptions, source: ChangelogSource, ends: Ends) -> None:
        self._options = options
        self._source = source
        self._ends = ends
        self._keys: frozenset[bytes] | None = None
        table = table_of(options, source.entry)
        columns = table.batch_columns(
            with_tombstones=options.include_tombstones, with_meta=options.include_meta
        )
        self.schema = arrow_schema(columns)
        """Names and types of the columns."""

    @classmethod
    def of(cls, options: SourceOptions, keys: Iterable[Any] | None) -> StoredTable:
        """The table that the options name, at the cut that they name, fixed now."""
        source = find_source(options)
        table = cls(options, source, ends_of_read(options, source))
        if keys is not None:
            table._keys = encoded_keys(keys, table_of(options, source.entry))
        return table

    @property
    def cut(self) -> str:
        """The cut that this is, of this store alone: give it to ``read`` to read the same again."""
        source, ends = self._source, self._ends
        name = source.entry.get("name")
        clocks: dict[str, dict[str, int]] = {}
        for kind, known in (("store", ends.clocks), ("rows", ends.rows)):
            for n, number in known.items():
                clocks.setdefault(str(source.task(n)), {})[f"{kind}:{name}"] = number
        topic = source.topic
        return str(
            CutValue(
                {topic: ends.positions},
                {topic: source.topic_id},
                clocks=clocks,
                taken_at_ms=ends.taken_at_ms,
                starts={topic: ends.starts} if ends.starts else {},
            )
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, partition by partition, as they are read. Raises as ``logstate.read``."""
        for batches in self.partitions().values():
            yield from batches

    def partitions(self) -> dict[int, Iterator[pa.RecordBatch]]:
        """The rows of each changelog partition, which is read when its rows are asked for."""
        scan = TableScan(self._options, self._source, self._ends)
        scan.keys = self._keys
        return {each.partition: scan.read(each) for each in scan.plan()}

    def to_arrow(self) -> pa.Table:
        """All rows as a ``pyarrow.Table``."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<StoredTable {self._options.application}.{self._source.name} ({columns})>"
