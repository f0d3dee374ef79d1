"""The registry of the kinds of stores, by the names that manifests and declarations have.

A reader answers queries over read-only rows: it has the reads of its store, no writes and no
changelog. Reading an entry of an LRU store through a reader does not count as use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from logstate.changelog.rows.row_codec import row_codec
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stores.counter import COUNTERS
from logstate.changelog.stores.join_buffer import JOIN_BUFFER
from logstate.changelog.stores.key_value import KEY_VALUE
from logstate.changelog.stores.lists import LISTS
from logstate.changelog.stores.lru import KEY_VALUE_LRU, TIMESTAMPED_KEY_VALUE_LRU
from logstate.changelog.stores.maps import MAPS
from logstate.changelog.stores.outer_join_buffer import OUTER_JOIN
from logstate.changelog.stores.session import SESSIONS
from logstate.changelog.stores.sets import SETS
from logstate.changelog.stores.store_kind import StoreKind
from logstate.changelog.stores.subscription import FOREIGN_KEY_SUBSCRIPTION
from logstate.changelog.stores.suppress_buffer import SUPPRESS_BUFFER
from logstate.changelog.stores.timestamped_key_value import TIMESTAMPED_KEY_VALUE
from logstate.changelog.stores.versioned import VERSIONED
from logstate.changelog.stores.window import TIMESTAMPED_WINDOWS, WINDOWS
from logstate.contracts.errors import TopologyError
from logstate.contracts.processing import STREAM_TIME, TaskContext, TimeCell
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic

KINDS: Final[dict[str, StoreKind]] = {}


def register(kind: StoreKind) -> None:
    """Make a kind known to every part of the program, also to those that read changelogs."""
    if KINDS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"a kind of store named {kind.name!r} is registered already")


for _kind in (
    KEY_VALUE, KEY_VALUE_LRU, TIMESTAMPED_KEY_VALUE, TIMESTAMPED_KEY_VALUE_LRU,
    WINDOWS, TIMESTAMPED_WINDOWS, SESSIONS, VERSIONED,
    LISTS, MAPS, SETS, COUNTERS,
    SUPPRESS_BUFFER, OUTER_JOIN, JOIN_BUFFER, FOREIGN_KEY_SUBSCRIPTION,
):  # fmt: skip
    register(_kind)


def kind_of(described: StoreSpec | Mapping[str, Any]) -> StoreKind:
    """Return the kind of a store, by its specification or its entry in a manifest.

    A manifest of another version may have an unknown kind, of which only the bytes can be read.
    """
    name = described.kind if isinstance(described, StoreSpec) else str(described["kind"])
    return KINDS.get(name) or StoreKind(name, object, row_columns=(), is_internal=True)


def build_store(spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext) -> Any:
    """Create the store that ``spec`` declares, over ``rows``; what it logs goes to ``writes``."""
    if spec.kind not in KINDS:
        raise TopologyError(
            f"unknown store kind {spec.kind!r} of store {spec.name!r}; known: {', '.join(KINDS)}",
            declared_at=spec.declared_at,
        )
    return KINDS[spec.kind].store(spec, rows, writes, context)


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
    codec, clock = row_codec(spec, topic, kind.row_format(spec)), spec.clock_name
    # The cut knows the stream time of the task before a store with a TTL has a clock.
    by_stream_time = spec.ttl_ms is not None and spec.ttl_by == "stream_time"
    names = (clock, STREAM_TIME) if by_stream_time else (clock,)

    def make(rows: ReadableRows, clocks: Mapping[str, int]) -> Any:
        return reader(spec, codec, rows, TimeCell(max(clocks.get(name, -1) for name in names)))

    return make
