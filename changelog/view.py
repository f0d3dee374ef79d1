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

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from logstate.changelog.backend.backend import BackendSnapshot, end_of_prefix
from logstate.changelog.backend.merge import merge_rows
from logstate.changelog.rows.rows import RowMirror
from logstate.contracts.errors import StoreError, StoreUnavailableError

#: how long closing a task waits for readers; a query takes milliseconds
LEASE_WAIT_S = 5.0


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
        with self._lease.read() as snapshot:
            stored = snapshot.scan(self.prefix + lower, end, reverse=reverse)
            yield from merge_rows(ordered, stored, len(self.prefix), reverse=reverse)

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

    def __init__(self, rows: Mapping[str, CommittedRows], clocks: Mapping[str, int]) -> None:
        self.rows = rows
        self.clocks = clocks
