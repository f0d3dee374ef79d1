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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from logstate.changelog.backend.backend import BackendSnapshot, end_of_prefix
from logstate.changelog.backend.memory import MemorySnapshot
from logstate.changelog.backend.merge import merge_rows
from logstate.changelog.rows.rows import RowMirror, Rows
from logstate.contracts.errors import StoreError, StoreUnavailableError
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
        """Let nobody else in, wait for the readers no longer than ``wait_s``, then release."""
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
    """The read side of Rows, over one commit."""

    def __init__(
        self,
        prefix: bytes,
        layers: tuple[Mapping[bytes, bytes | None], ...],
        lease: SnapshotLease,
    ) -> None:
        self.prefix = prefix
        self._end = end_of_prefix(prefix)
        self._layers = layers
        self._lease = lease

    @classmethod
    def of(cls, rows: Rows, lease: SnapshotLease) -> CommittedRows:
        """What is committed of the rows of a store, over its backend's snapshot."""
        return cls(rows.prefix, tuple(layer.rows for layer in rows.unapplied()), lease)

    def get(self, key: bytes) -> bytes | None:
        """The committed row, or None."""
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        with self._lease.read() as snapshot:
            return snapshot.get(self.prefix + key)

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Committed rows of ``[lower, upper)`` in byte order."""
        fresh: dict[bytes, bytes | None] = {}
        for layer in self._layers:
            fresh.update(
                (k, v) for k, v in layer.items() if k >= lower and (upper is None or k < upper)
            )
        ordered = sorted(fresh.items(), reverse=reverse)
        end = self._end if upper is None else self.prefix + upper
        stored = self._stored(self.prefix + lower, end, reverse=reverse)
        yield from merge_rows(ordered, stored, len(self.prefix), reverse=reverse)

    def _stored(
        self, lower: bytes, upper: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of the snapshot, in portions: an iterator that nobody goes on with holds no lease.

        Otherwise a reader that waits for its next page would keep a rebalance waiting.
        """
        size = _PORTION
        while True:
            with self._lease.read() as snapshot:
                rows = snapshot.scan(lower, upper, reverse=reverse)
                is_copy = isinstance(snapshot, MemorySnapshot)  # it has read all of them already
                portion = list(rows if is_copy else itertools.islice(rows, size))
            yield from portion
            if is_copy or len(portion) < size:
                return
            last = portion[-1][0]
            lower, upper = (lower, last) if reverse else (last + b"\0", upper)
            size = min(4 * size, _PORTION_MAX)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Refused: what queries see is read-only."""
        raise _read_only(f"put {value!r:.20} at {key!r:.40}")

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Refused, like put."""
        raise _read_only(f"put {len(rows)} rows")

    def mirror(self, mirror: RowMirror) -> None:
        """Nothing to tell it: these rows never change."""

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Refused, like put."""
        raise _read_only(f"delete {lower!r:.40} to {upper!r:.40}")


def _read_only(attempt: str) -> StoreError:
    return StoreError(
        f"a queried store is read-only, and something tried to {attempt}; write inside the"
        " topology, for example in a processor connected to the store"
    )


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
