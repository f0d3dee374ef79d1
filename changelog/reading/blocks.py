"""Records of one changelog partition as columns, from which tables are built.

A client message needs 700 bytes of memory; for a record of a table, only its bytes are kept.
"""

from __future__ import annotations

import mmap
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from logstate.contracts.records import FetchedRecord, TopicPartition

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

key_of = methodcaller("key")
offset_of = methodcaller("offset")
_value_of = methodcaller("value")
timestamp_of = methodcaller("timestamp")
_headers_of = methodcaller("headers")


class Block(NamedTuple):
    """Records of one partition in columns of the same length."""

    log: TopicPartition
    keys: pa.Array
    """The keys in the changelog, including windows."""
    values: pa.Array
    """Null: a tombstone."""
    offsets: pa.Array
    times: pa.Array
    """Timestamps of the records, in ms."""
    headers: pa.Array | None = None
    """Present only if requested."""
    valid_to: pa.Array | None = None
    """Versioned stores: when the next version begins; null for the newest."""

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The memory that the columns need, in bytes."""
        return sum(column.nbytes for column in self[1:] if column is not None)

    def slice(self, start: int, rows: int) -> Block:
        """Some of it, without a copy."""
        return Block(self.log, *(c if c is None else c.slice(start, rows) for c in self[1:]))

    def filter(self, mask: pa.Array) -> Block:
        """The records for which the mask is true."""
        return Block(self.log, *(c if c is None else c.filter(mask) for c in self[1:]))

    def take(self, indices: pa.Array) -> Block:
        """The records at these places, in this order."""
        return Block(self.log, *(c if c is None else c.take(indices) for c in self[1:]))


class FrameHeaders(NamedTuple):
    """The headers that may have what else is in front of keys and values: ids of their schemas."""

    key: str | None = None
    value: str | None = None


UNFRAMED = FrameHeaders()


def block_of(
    log: TopicPartition,
    records: Sequence[FetchedRecord],
    *,
    with_headers: bool = False,
    frames: FrameHeaders = UNFRAMED,
) -> Block:
    """Return the records of a partition as columns, with the schema ids that ``frames`` adds."""
    times = pa.array([time for _, time in map(timestamp_of, records)], pa.int64())
    headers = None
    if with_headers:
        headers = pa.array([_pairs(one) for one in map(_headers_of, records)], HEADERS)
    return Block(
        log,
        pa.array(_with_header_bytes(records, key_of, frames.key), pa.binary(), size=len(records)),
        pa.array(
            _with_header_bytes(records, _value_of, frames.value), pa.binary(), size=len(records)
        ),
        pa.array(map(offset_of, records), pa.int64(), size=len(records)),
        # A log keeps time 0 as -1: the client library takes a 0 to mean "now" when it writes.
        pc.max_element_wise(times, 0),
        headers,
    )


def _with_header_bytes(
    records: Sequence[FetchedRecord], part_of: Callable[[Any], Any], header: str | None
) -> Iterator[bytes | None]:
    parts = map(part_of, records)
    if header is None:
        return parts
    found = (dict(each or ()).get(header) for each in map(_headers_of, records))
    return (
        part if part is None or not frame else frame + part
        for frame, part in zip(found, parts, strict=True)
    )


def _pairs(headers: Any) -> Any:
    return headers and [{"key": name, "value": value} for name, value in headers]


def joined(blocks: Sequence[Block]) -> Block:
    """Several blocks of a partition as one, which is a copy of them."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(block[1:] for block in blocks), strict=True)
    return Block(
        blocks[0].log, *(None if each[0] is None else pa.concat_arrays(each) for each in columns)
    )


def sliced(block: Block, rows: int) -> Iterator[Block]:
    """The block in parts of at most so many rows."""
    for start in range(0, block.rows, rows):
        yield block.slice(start, rows)


def numbers(data: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Big-endian numbers, as Java writes them: of 2, 4 or 8 bytes.

    Raises ValueError if one has not the length of such a number.

    >>> numbers(pa.array([bytes(8), None], pa.binary()), pa.int64()).to_pylist()
    [0, None]
    """
    found = array(
        {pa.int64(): "q", pa.int32(): "i", pa.int16(): "h", pa.float64(): "d", pa.float32(): "f"}[
            arrow
        ]
    )
    size = found.itemsize
    shortest_and_longest = pc.min_max(pc.binary_length(data)).as_py().values()
    if any(length not in {size, None} for length in shortest_and_longest):
        raise ValueError(f"a number of {size} bytes was expected; found {shortest_and_longest}")
    whole = pc.fill_null(data, bytes(size)) if data.null_count else data
    if len(whole):
        starts = memoryview(whole.buffers()[1]).cast("i")
        first = starts[whole.offset]
        found.frombytes(memoryview(whole.buffers()[2])[first : first + size * len(whole)])
    if sys.byteorder == "little":
        found.byteswap()
    made = pa.Array.from_buffers(arrow, len(whole), [None, pa.py_buffer(found)])
    return pc.if_else(data.is_valid(), made, pa.scalar(None, arrow)) if data.null_count else made


class SpilledBlocks:
    """Blocks whose columns are in a temporary file (in ``TMPDIR``).

    The operating system loads the parts that are read. The file is unlinked from the beginning: it
    is deleted with the last block that uses it, or with the process.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        names = [name for name in Block._fields[1:] if getattr(blocks[0], name) is not None]
        batches = [
            pa.record_batch([getattr(block, name) for name in names], names=names)
            for block in blocks
        ]
        with tempfile.TemporaryFile(prefix="logstate-read-") as file:
            with pa.ipc.new_file(file, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            file.flush()
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.py_buffer(self._mapped))
        found = (reader.get_batch(n) for n in range(reader.num_record_batches))
        log = blocks[0].log
        self.blocks = [Block(log, **dict(zip(names, each.columns, strict=True))) for each in found]
        """The same blocks again."""

    def release(self) -> None:
        """Release the memory of previous reads; later reads load the file again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
