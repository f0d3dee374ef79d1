"""The writes of each commit, and committed layers as readers see them: few runs, in order.

Dozens of committed layers may wait for the backend. Readers see them as *runs*: merged rows of
layers that follow each other, each run at least twice as large as the next newer one, so there are
at most log2 as many as rows. The rows of one more commit become a separate run, or are merged with
adjacent runs that are not large enough; a row is merged a few times in its life, however many
commits come after it.

Runs are made by the first reader of a view, from those of an earlier view if one was read, and the
keys of a run are sorted by the first reader that scans it. This is done only for readers, and
never by the worker that commits.

Invariants:
1. a layer is immutable once it is frozen, and a run always;
2. the layers of a store that wait are the same, in the same places, until all of them are applied.

So readers need no lock: two may make the same runs at once, and either's are right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby

from logstate.changelog.backend.backend import KeyRange

#: keys that a short scan finds
_NEAR = 32


def data_bytes(rows: Mapping[bytes, bytes | None]) -> int:
    """Keys and values together.

    >>> data_bytes({b"key": b"value", b"deleted": None})
    15
    """
    return sum(map(len, rows)) + sum(map(len, filter(None, rows.values())))


class Layer:
    """The writes of one commit: rows (None = deleted), then deleted ranges."""

    __slots__ = ("_data_bytes", "entries", "index", "is_replayed", "ranges", "rows", "runs")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.ranges: list[KeyRange] = []
        #: changes of the index of the rows' times, where rows expire one by one
        self.index: Layer | None = None
        #: changes of the secondary indexes, where the store has any
        self.entries: Layer | None = None
        #: of the layers up to this one, where it is the last one that a reader saw
        self.runs: tuple[Run, ...] | None = None
        #: read from a changelog: the task may never ask for these rows
        self.is_replayed = False
        self._data_bytes: int | None = None

    @property
    def is_empty(self) -> bool:
        """True where nothing was written."""
        parts = self.index, self.entries
        return not self.rows and not self.ranges and all(not one or one.is_empty for one in parts)

    def data_bytes(self) -> int:
        """Keys and values together; of a frozen layer, so it is counted once."""
        if self._data_bytes is None:
            self._data_bytes = data_bytes(self.rows)
        return self._data_bytes


class Run:
    """Rows of layers that follow each other, the latest of each key."""

    __slots__ = ("_keys", "rows")

    def __init__(
        self, rows: Mapping[bytes, bytes | None], sorted_keys: list[bytes] | None = None
    ) -> None:
        self.rows = rows
        self._keys = sorted_keys

    def with_newer(self, newer: Run) -> Run:
        """Return both runs as one; sorted, if this one is, because scans are likely then."""
        rows = {**self.rows, **newer.rows}
        if not self.is_sorted:
            return Run(rows)
        # To sort what consists of two ascending parts is to merge them, at the speed of C.
        keys = sorted(chain(self.sorted_keys(), newer.sorted_keys()))
        return Run(rows, keys if len(keys) == len(rows) else list(dict.fromkeys(keys)))

    @property
    def is_sorted(self) -> bool:
        """Whether a reader has scanned it."""
        return self._keys is not None

    def sorted_keys(self) -> list[bytes]:
        """The keys in byte order."""
        keys = self._keys
        if keys is None:
            keys = self._keys = sorted(self.rows)
        return keys

    def keys_between(
        self, lower: bytes, upper: bytes | None, *, reverse: bool
    ) -> Iterator[bytes] | None:
        """Keys in ``[lower, upper)``, upper None = to the end; None where there are none."""
        keys = self.sorted_keys()
        first, end = bisect_left(keys, lower), len(keys)
        if first == end or (upper is not None and keys[first] >= upper):
            return None
        if upper is not None:
            near = first + _NEAR
            if near < end and keys[near] >= upper:
                end = near
            end = bisect_left(keys, upper, first, end)
        places = range(first, end)
        return map(keys.__getitem__, reversed(places) if reverse else places)


def runs_of(layers: Sequence[Layer]) -> tuple[Run, ...]:
    """The runs of the layers that wait, newest first."""
    runs: tuple[Run, ...] = ()
    seen = len(layers)
    while seen:
        known = layers[seen - 1].runs
        if known is not None:
            runs = known
            break
        seen -= 1
    if seen == len(layers):
        return runs
    for layer in layers[seen:]:
        if layer.rows:
            runs = _with_newest(runs, Run(layer.rows))
    layers[-1].runs = runs
    if seen:  # a view that has these keeps them
        layers[seen - 1].runs = None
    return runs


def _with_newest(runs: tuple[Run, ...], newest: Run) -> tuple[Run, ...]:
    place = 0
    while place < len(runs) and len(runs[place].rows) < 2 * len(newest.rows):
        newest = runs[place].with_newer(newest)
        place += 1
    return newest, *runs[place:]


def scan_runs(
    runs: Sequence[Run], lower: bytes, upper: bytes | None, *, reverse: bool
) -> Iterator[tuple[bytes, bytes | None]]:
    """Rows of ``[lower, upper)`` in byte order, those of the first runs winning."""
    scanned = [
        (run, keys)
        for run in runs
        if (keys := run.keys_between(lower, upper, reverse=reverse)) is not None
    ]
    if not scanned:
        return iter(())
    if len(scanned) == 1:
        ((run, keys),) = scanned
        rows = run.rows
        return ((key, rows[key]) for key in keys)
    all_rows = [run.rows for run, _ in scanned]
    in_order = merge(*(keys for _, keys in scanned), reverse=reverse)
    return (
        (key, next(rows[key] for rows in all_rows if key in rows)) for key, _ in groupby(in_order)
    )
