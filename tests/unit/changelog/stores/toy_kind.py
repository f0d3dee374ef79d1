"""A kind of store in one file: the largest value of each key, and how often the key was put.

The key of a row and of its changelog record is ``* | key``, the content of both
``8 bytes number of puts | value``. Importing the file registers the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from logstate import Processor, Record, StreamsBuilder, Topology, serdes
from logstate.changelog.rows.row_codec import PLAIN_ROWS, RowCodec, row_codec, serde_topic
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.kinds import register
from logstate.changelog.stores.store_kind import RowColumn, StoreKind
from logstate.contracts.changelog_keys import KeyLayout
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.stores import StoreSpec

_HEAD = b"*"


class LargestReads:
    """Reads of the largest values, over a task's rows or a query's."""

    def __init__(
        self, _spec: StoreSpec, codec: RowCodec, rows: ReadableRows, _cell: TimeCell | None = None
    ) -> None:
        self._codec, self._reads = codec, rows

    def get(self, key: Any) -> Any:
        row = self._reads.get(_HEAD + self._codec.encode_key(key))
        return None if row is None else self._codec.decode_value(row[8:])

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self.range()

    def range(self, lower: Any = None, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        is_inside = self._codec.key_range(lower, upper)
        for key, row in self._reads.scan():
            if is_inside(key[1:]):
                yield self._codec.decode_key(key[1:]), self._codec.decode_value(row[8:])


class LargestStore(LargestReads):
    """The store of a task; ``put`` keeps the larger value."""

    row_formats = PLAIN_ROWS

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        codec = row_codec(spec, serde_topic(spec, context), PLAIN_ROWS[0])
        super().__init__(spec, codec, rows)
        self.name = spec.name
        self._rows, self._writes, self._context = rows, writes, context

    def put(self, key: Any, value: Any) -> None:
        row_key, largest = _HEAD + self._codec.encode_key(key), self.get(key)
        row = self._rows.get(row_key)
        puts = 1 if row is None else int.from_bytes(row[:8], "big") + 1
        kept = value if largest is None else max(largest, value)
        self._write(row_key, puts.to_bytes(8, "big") + self._codec.encode_value(kept))

    def delete(self, key: Any) -> None:
        self._write(_HEAD + self._codec.encode_key(key), None)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        self._rows.put_rows({key: value for key, value, _, _ in records})

    def _write(self, row_key: bytes, row: bytes | None) -> None:
        self._rows.put(row_key, row)
        self._writes.add(row_key, (row_key, row, self._context.timestamp, None))


LARGEST = StoreKind(
    "largest",
    LargestStore,
    LargestReads,
    key_layout=KeyLayout(head_bytes=len(_HEAD)),
    row_columns=(
        RowColumn("value", "value", lambda _key, row, _store: row[8:]),
        RowColumn("puts", "integer", lambda _key, row, _store: int.from_bytes(row[:8], "big")),
    ),
)
register(LARGEST)


class Keep(Processor[str, int, str, int]):
    """Puts each value, deletes for a negative one, and forwards what the store has."""

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store("best")
        if record.value < 0:
            store.delete(record.key)
        else:
            store.put(record.key, record.value)
            self.context.forward(record._replace(value=store.get(record.key)))


def largest_values(source: str = "in", sink: str = "out") -> Topology:
    """Return a topology with a store of the kind."""
    builder = StreamsBuilder()
    best = StoreSpec("best", LARGEST.name, serdes.string, serdes.int64)
    builder.stream(source, key=str, value=int).process(Keep, stores=best).to(
        sink, key=str, value=int
    )
    return builder.build()
