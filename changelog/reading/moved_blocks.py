"""Blocks whose columns lie in a file instead of in memory; the system brings in what is read.

The file has no name from the beginning: it is gone with the last block that lies in it, or with the
process.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence

import pyarrow as pa

from logstate.changelog.reading.blocks import Block


class MovedBlocks:
    """Some blocks in a file of the directory for temporary ones (``TMPDIR``)."""

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
        """Give the memory back that reading has taken; who reads on, reads from the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
