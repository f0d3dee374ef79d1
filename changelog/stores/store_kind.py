"""A kind of store: everything that the rest of the program needs to know of it, in one object.

Each file of this package defines its kinds; :mod:`logstate.changelog.stores.kinds` registers them.
The runtime, queries, HTTP, commands and readers of changelogs ask the object, so a new kind is a
file like these and one registration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from logstate.changelog.rows.row_codec import RowCodec, RowFormat, RowFormats, format_of_rows
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.changelog_keys import PLAIN, WINDOWED, KeyLayout
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec


class Store(Protocol):
    """The interface of every store of a task; its other methods depend on its kind."""

    row_formats: ClassVar[RowFormats]
    name: str

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing; learns the store's clock."""


ReaderClass: TypeAlias = Callable[[StoreSpec, RowCodec, ReadableRows, TimeCell], Any]


class RowColumn(NamedTuple):
    """A column of a table (Arrow, Spark) for a kind whose changelog has more than values."""

    name: str
    #: what ``of`` returns: a value as bytes, a list of such values, a time in ms, or an integer
    holds: Literal["value", "values", "time", "integer"]
    #: (key and value of a changelog record, name of the store) -> content; None: null
    of: Callable[[bytes, bytes, str], Any]
    #: the part of the description of values that describes this one; None: all of it
    part: str | None = None


#: names of the parameters for times in requests over HTTP
SPAN: Final = ("from", "to")
#: and for the first and the last element of a key
BOUNDS: Final = ("lower", "upper")


@dataclass(frozen=True)
class StoreKind:
    """A kind of store.

    ``store`` has the interface :class:`Store`, and is called with the specification, the rows, the
    changelog and the context of a task. ``reader`` answers queries, over committed rows that can
    only be read; None: only the operator of the store reads it.
    """

    name: str
    store: type[Any]
    reader: ReaderClass | None = None
    _: KW_ONLY
    key_layout: KeyLayout = PLAIN
    """Of changelog keys."""
    row_columns: tuple[RowColumn, ...] | None = None
    """Columns of tables, if values of the changelog are not plain; one named ``value`` is the
    store's value. Empty: only the store can decode keys and values, which are shown as bytes."""
    is_internal: bool = False
    """Only an operator uses such stores: commands and HTTP do not decode their changelogs."""
    key_reads: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"get": ()})
    """Over HTTP: reads by key -> their parameters, times or an element; the last is the default."""
    range_read: tuple[str, tuple[str, ...]] = ("range", ())
    """Over HTTP: the read of several keys and its time parameters."""
    are_rows_records: bool = False
    """A row is a key of the changelog, and its last record is all that the row depends on: rows
    can be counted, and be restored in bulk."""
    can_be_filled: bool = False
    """Other programs may write rows to the changelog while the application is stopped."""
    is_versioned: bool = False
    """A changelog has the versions of each key, by the timestamps of its records."""
    is_segmented: bool = False
    """Rows begin with the 8 bytes of their segment and expire by segment. So does the changelog,
    which is truncated below the first offset of the oldest live segment."""
    shows_edge: bool = False
    """With ``keep_at_retention``, a row on disk is shown when it is as old as the retention."""
    is_keyed_by_pair: bool = False
    """A changelog key is two keys, the first with its length before it; that one is hashed."""
    element_name: str = ""
    """Where a key has elements: the name of the element that a row has besides key and value, as
    a column and in data. Empty if the value is the element."""
    segment_interval_ms: Callable[[StoreSpec], int | None] = lambda _: None
    """The interval of segments, if rows are stored by segment."""
    local_layout: Callable[[StoreSpec], int] = lambda _: 1
    """The version of the layout of local rows."""
    own_rows: frozenset[bytes] = frozenset()
    """Keys of rows that depend on more than the consumed records, and are not compared."""

    def row_format(self, spec: StoreSpec) -> RowFormat:
        """Return the format of a store's rows."""
        return format_of_rows(self.store.row_formats, spec)

    def value_of(self, key: bytes, logged: bytes, store: str) -> bytes:
        """Return the value, as bytes, in a record of a store's changelog."""
        columns = () if self.is_internal else self.row_columns or ()
        values = (one.of(key, logged, store) for one in columns if one.name == "value")
        return next(values, logged)

    def layout_of(self, key: Mapping[str, Any] | None) -> KeyLayout:
        """Return the layout of a changelog whose keys have this description.

        A plain key may be a window itself.
        """
        key_format = (key or {}).get("format", "")
        return WINDOWED.get(key_format, PLAIN) if self.key_layout is PLAIN else self.key_layout

    def oldest_shown(self, entry: Mapping[str, Any]) -> int | None:
        """Return what to add to the store's stream time for the oldest visible time.

        None: rows do not expire. ``entry`` describes the store in the manifest.
        """
        retention_ms: int | None = entry.get("retention_ms")
        if retention_ms is None or not self.is_segmented:
            return None
        # For windows that are emitted when they close, which includes the one exactly at the limit.
        keeps_edge = entry.get("keep_at_retention") and not entry.get("in_memory")
        return -retention_ms + (0 if self.shows_edge and keeps_edge else 1)
