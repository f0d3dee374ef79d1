"""Readers of stores, which answer queries over read-only rows.

A reader has the reads of its store and no writes: it gets rows that can only be read, and no
changelog. Reading an entry of an LRU store through a reader does not count as use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.changelog.rows.row_codec import row_codec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic

#: makes a reader of rows and the clocks of the same commit
MakeReader: TypeAlias = "Callable[[ReadableRows, Mapping[str, int]], Any]"


class NoReads:
    """For a store that only its operator reads."""


def reader_maker(spec: StoreSpec, application_id: str) -> MakeReader:
    """How readers of a store are made; its serdes are bound once."""
    kind = kind_of(spec)
    reader = kind.reader
    if reader is None:
        return lambda _rows, _clocks: NoReads()
    topic = spec.source_topic or changelog_topic(application_id, spec.name)
    codec, clock = row_codec(spec, topic, kind.row_format(spec)), f"store:{spec.name}"
    return lambda rows, clocks: reader(spec, codec, rows, TimeCell(clocks.get(clock, -1)))
