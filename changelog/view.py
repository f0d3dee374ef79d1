"""What queries from other threads see: committed rows, fixed at one commit.

A view is published by a single assignment at each commit, so a reader sees all of a commit or
nothing of it, over all stores of the task. It consists of the committed layers that the backend
does not hold yet, over a snapshot of the backend that is renewed only when layers are applied
(between applies the backend does not change).

A view stays readable for as long as somebody holds it, however often rows are applied meanwhile; a
snapshot that no view uses any more goes away by itself. Readers hold a *lease* while they read.
Closing a task waits for leases, bounded, and then makes the snapshots unusable: a reader gets
StoreUnavailableError, never a silently short answer.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from logstate.changelog.backend.backend import BackendSnapshot, end_of_prefix
from logstate.changelog.backend.ordered import merge_rows
from logstate.changelog.rows.indexed_rows import IndexedRows
from logstate.changelog.rows.layers import Layer, Run, runs_of, scan_runs
from logstate.changelog.rows.rows import Rows
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import TopicPartition

#: how long closing a task waits for readers; a query takes milliseconds
LEASE_WAIT_S = 5.0
#: rows of a snapshot that are read at a time: the first time, and at most
_PORTION, _PORTION_MAX = 64, 4_096


class SnapshotLease:
    """A backend snapshot shared by the views of several commits; counts its readers."""

    def __init__(self, snapshot: BackendSnapshot) -> None:
        self._snapshot = snapshot
        self._readers = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def read(self) -> Iterator[BackendSnapshot]:
        """Hold the snapshot; raises StoreUnavailableError once the task is closed."""
        with self._changed:
            if self._is_closed:
                raise StoreUnavailableError(
                    "the store was closed while it was being read: its partition moved to another"
                    " instance or the application is closing; look the owner up again and retry"
                )
            self._readers += 1
        try:
            yield self._snapshot
        finally:
            with self._changed:
                self._readers -= 1
                if self._readers == 0:
                    self._changed.notify_all()

    def close(self, wait_s: float = LEASE_WAIT_S) -> None:
        """Refuse new readers, wait for the others no longer than ``wait_s``, then release."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._readers == 0, wait_s)
            self._snapshot.release()


def close_leases(leases: Iterable[SnapshotLease], wait_s: float = LEASE_WAIT_S) -> None:
    """Close all of them, waiting for their readers no longer than ``wait_s`` in total."""
    end = time.monotonic() + wait_s
    for lease in leases:
        lease.close(max(0.0, end - time.monotonic()))


class CommittedRows:
    """The committed rows of one store, to be read and nothing else."""

    def __init__(
        self,
        prefix: bytes,
        layers: Iterable[Layer],
        lease: SnapshotLease,
        entries: CommittedRows | None = None,
    ) -> None:
        """``entries``: of the store's indexes, of the same commit."""
        self.prefix = prefix
        self.entries = entries
        self._end = end_of_prefix(prefix)
        self._layers = tuple(layers)
        #: None: not read yet
        self._runs: tuple[Run, ...] | None = None
        self._lease = lease

    def get(self, key: bytes) -> bytes | None:
        """The committed row, or None."""
        for run in self._runs or self._made_runs():
            if key in run.rows:
                return run.rows[key]
        with self._lease.read() as snapshot:
            return snapshot.get(self.prefix + key)

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Committed rows of ``[lower, upper)`` in byte order."""
        fresh = scan_runs(self._runs or self._made_runs(), lower, upper, reverse=reverse)
        end = self._end if upper is None else self.prefix + upper
        stored = self._stored(self.prefix + lower, end, reverse=reverse)
        return merge_rows(fresh, stored, len(self.prefix), reverse=reverse)

    def _made_runs(self) -> tuple[Run, ...]:
        self._runs = runs_of(self._layers)
        return self._runs

    def _stored(
        self, lower: bytes, upper: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return rows of the snapshot, in portions: an abandoned iterator holds no lease.

        Otherwise a reader that waits for its next page would keep a rebalance waiting.
        """
        size = _PORTION
        while True:
            with self._lease.read() as snapshot:
                rows = snapshot.scan(lower, upper, reverse=reverse)
                portion = list(itertools.islice(rows, size))
            yield from portion
            if len(portion) < size:
                return
            last = portion[-1][0]
            lower, upper = (lower, last) if reverse else (last + b"\0", upper)
            size = min(4 * size, _PORTION_MAX)


def committed_rows(rows: Rows, lease: SnapshotLease) -> CommittedRows:
    """The committed rows of a store of a task, with those of its indexes."""
    layers = rows.unapplied()
    entries: CommittedRows | None = None
    if isinstance(rows, IndexedRows):
        of_indexes = [layer.entries for layer in layers if layer.entries is not None]
        entries = CommittedRows(rows.entries.prefix, of_indexes, lease)
    return CommittedRows(rows.prefix, layers, lease, entries)


class StateView:
    """The committed rows of every store of a task, and the clocks of the same commit."""

    def __init__(
        self,
        rows: Mapping[str, CommittedRows],
        clocks: Mapping[str, int],
        inputs: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self.rows = rows
        self.clocks = clocks
        #: input partition -> the first offset that the rows do not hold yet
        self.inputs = inputs
        self._readers: dict[str, Any] = {}

    def reader(self, store: str, make: Callable[[CommittedRows, Mapping[str, int]], Any]) -> Any:
        """The reader of a store, made of rows and clocks by the first that asks."""
        reader = self._readers.get(store)
        if reader is None:
            reader = self._readers[store] = make(self.rows[store], self.clocks)
        return reader
