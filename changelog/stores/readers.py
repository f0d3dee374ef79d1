"""Readers of stores: which class answers queries about which kind, over read-only rows.

A reader has the reads of its store and no writes: it gets rows that can only be read, and no
changelog. Reading an entry of an LRU store through a reader does not count as use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.changelog.rows.row_codec import RowCodec, row_codec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.stores.key_value import KeyValueReads
from logstate.changelog.stores.lru import EntryRows
from logstate.changelog.stores.outer_join_buffer import OuterJoinReads
from logstate.changelog.stores.session import SessionReads
from logstate.changelog.stores.versioned_reads import VersionedReads
from logstate.changelog.stores.window import WindowReads
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic

#: makes a reader of rows and the clocks of the same commit
MakeReader: TypeAlias = "Callable[[ReadableRows, Mapping[str, int]], Any]"

_ReaderClass: TypeAlias = "Callable[[StoreSpec, RowCodec, ReadableRows, TimeCell], Any]"


class NoReads:
    """For a store that only its operator reads."""


def _key_value(_spec: StoreSpec, codec: RowCodec, rows: ReadableRows, _cell: TimeCell) -> Any:
    return KeyValueReads(codec, rows)


def _entries(_spec: StoreSpec, codec: RowCodec, rows: ReadableRows, _cell: TimeCell) -> Any:
    return KeyValueReads(codec, EntryRows(rows))


def _unmatched(spec: StoreSpec, codec: RowCodec, rows: ReadableRows, _cell: TimeCell) -> Any:
    return OuterJoinReads(spec, codec, rows)


#: stores of kinds that are not here have no reads
READER_CLASSES: dict[str, _ReaderClass] = {
    "key_value": _key_value,
    "key_value_lru": _entries,
    "timestamped_key_value": _key_value,
    "timestamped_key_value_lru": _entries,
    "window": WindowReads,
    "timestamped_window": WindowReads,
    "session": SessionReads,
    "versioned": VersionedReads,
    "outer_join": _unmatched,
}


def reader_maker(spec: StoreSpec, application_id: str) -> MakeReader:
    """How readers of a store are made; its serdes are bound once."""
    reader_class = READER_CLASSES.get(spec.kind)
    if reader_class is None:
        return lambda _rows, _clocks: NoReads()
    codec = row_codec(spec, spec.source_topic or changelog_topic(application_id, spec.name))

    def make(rows: ReadableRows, clocks: Mapping[str, int]) -> Any:
        return reader_class(spec, codec, rows, TimeCell(clocks.get(f"store:{spec.name}", -1)))

    return make
