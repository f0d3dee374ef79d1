"""The state of a store as parquet: one file, or a directory with a file for each partition.

Invariants:

- Existing output stays complete until all of the new output is written and on disk; then each file
  replaces the old one by a rename.
- Other files in a directory are not touched.
- Each file contains its cut, under ``logstate.cut`` in its metadata: files with the same cut belong
  together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from logstate.changelog.reading.stored_table import StoredTable
from logstate.contracts.errors import ConfigError

_PART = "part-{:05d}.parquet"
_DRAFT = ".{}.draft"


def write_parquet(table: StoredTable, to: Path) -> dict[Path, int]:
    """Write the table, return its files with the rows of each.

    ``to`` is a file if its name ends in ``.parquet``, else a directory, made if it is not there.
    Raises ConfigError if the place cannot be written to, else as ``logstate.read``.
    """
    try:
        return _write_files(table, to)
    except OSError as exc:
        place = exc.filename or to
        raise ConfigError(
            f"the rows cannot be written to {place}: {exc.strerror or exc}. Name a"
            " directory, or a file *.parquet, that this user may write to, with enough room"
        ) from exc


def _write_files(table: StoredTable, to: Path) -> dict[Path, int]:
    is_file = to.suffix == ".parquet"
    if to.is_dir() if is_file else to.is_file():
        raise ConfigError(
            f"{to} is {'a directory' if is_file else 'a file'}: name a file *.parquet, or a "
            "directory that is there or can be made"
        )
    if not is_file:
        to.mkdir(parents=True, exist_ok=True)
    elif not to.parent.is_dir():
        raise ConfigError(f"directory {to.parent} for {to.name} does not exist")
    schema = table.schema.with_metadata({"logstate.cut": table.cut})
    parts = {to: table.batches()} if is_file else _parts(table, to)
    written: dict[Path, int] = {}
    try:
        for path, batches in parts.items():
            written[path] = _write(batches, schema, _draft_of(path))
    except BaseException:
        for path in parts:
            _draft_of(path).unlink(missing_ok=True)
        raise
    for path in written:
        _draft_of(path).replace(path)
    if not is_file:
        _remove_others(to, list(written))
    return written


def _parts(table: StoredTable, to: Path) -> dict[Path, Iterator[pa.RecordBatch]]:
    return {to / _PART.format(n): batches for n, batches in table.partitions().items()}


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
                rows += batch.num_rows
        file.flush()
        os.fsync(file.fileno())
    return rows


def _draft_of(path: Path) -> Path:
    return path.with_name(_DRAFT.format(path.name))  # hidden, so that no reader takes it for data


def _remove_others(directory: Path, written: Sequence[Path]) -> None:
    # Of an export with more partitions, or of a single one of them.
    for path in directory.glob("part-[0-9][0-9][0-9][0-9][0-9].parquet"):
        if path not in written:
            path.unlink()
