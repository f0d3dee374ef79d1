"""What each commit wrote, and committed layers as readers look at them: few runs, in order.

Dozens of committed layers may wait for the backend. Readers see them as *runs*: the merged rows of
1, 2, 4 ... layers that follow each other, at most log2 as many runs as layers. The run that ends at
the nth layer merges as many as the lowest bit of n says (of seven layers: 1, 1-2, 3, 1-4, 5, 5-6
and 7), and a view of n layers takes one run for every bit of n.

A run is made by the first reader that needs it and kept by its last layer, for the readers of later
views; its keys are sorted by the first that scans. So a row is merged and sorted a few times
however often it is read, and never where nobody asks. The worker that commits does none of it.

Invariants:
1. a layer is immutable once it is frozen, and a run always;
2. the layers of a store that wait are the same, in the same places, until all of them are applied.

So readers need no lock: two may make the same run at once, and either is right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby

from logstate.changelog.backend.backend import KeyRange


class Layer:
    """The writes of one commit: rows (None = deleted), then deleted ranges."""

    __slots__ = ("ranges", "rows", "run")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.ranges: list[KeyRange] = []
        #: what ends here, where a reader asked for it and no later run holds it
        self.run: Run | None = None

    def data_bytes(self) -> int:
        """Keys and values together."""
        return sum(map(len, self.rows)) + sum(map(len, filter(None, self.rows.values())))


class Run:
    """Rows of layers that follow each other, the latest of each key."""

    __slots__ = ("_keys", "rows")

    def __init__(
        self, rows: Mapping[bytes, bytes | None], sorted_keys: list[bytes] | None = None
    ) -> None:
        self.rows = rows
        self._keys = sorted_keys

    @classmethod
    def merged(cls, runs: Sequence[Run]) -> Run:
        """One of several, oldest first; sorted, where the oldest is: somebody scans, it seems."""
        if len(runs) == 1:
            return runs[0]
        rows: dict[bytes, bytes | None] = {}
        for run in runs:
            rows.update(run.rows)
        if not runs[0].is_sorted:
            return cls(rows)
        # Sorting what consists of a few ascending parts is merging them, at the speed of C.
        keys = sorted(chain.from_iterable(run.sorted_keys() for run in runs))
        return cls(rows, keys if len(keys) == len(rows) else list(dict.fromkeys(keys)))

    @property
    def is_sorted(self) -> bool:
        """Whether somebody scanned it."""
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
        first = bisect_left(keys, lower)
        end = len(keys) if upper is None else bisect_left(keys, upper, first)
        if first >= end:
            return None
        places = range(first, end)
        return map(keys.__getitem__, reversed(places) if reverse else places)


def runs_of(layers: Sequence[Layer]) -> tuple[Run, ...]:
    """The runs of the layers that wait, newest first."""
    runs, end = [], len(layers)
    while end:
        runs.append(_run_ending(layers, end))
        end = _begin(end)
    return tuple(runs)


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


def _begin(end: int) -> int:
    """How many layers lie before the run that ends with the layer of this number."""
    return end & (end - 1)


def _run_ending(layers: Sequence[Layer], end: int) -> Run:
    layer = layers[end - 1]
    run = layer.run
    if run is not None:
        return run
    parts, begin, at = [Run(layer.rows)], _begin(end), end - 1
    while at > begin:
        parts.append(_run_ending(layers, at))
        layers[at - 1].run = None  # a view that still has it keeps it
        at = _begin(at)
    run = layer.run = Run.merged(parts[::-1])
    return run
