"""All state of one task: its stores, their clocks and positions, and the content of a commit.

How it works. Every store has its :class:`Rows` over one of two backends (a RocksDB directory, or
memory), distinguished by a prefix. A commit takes the changes out of all stores at once:

    changes = state.freeze()             # writes to log, layers, clocks: one consistent cut
    ... its writes are produced, its transaction commits ...
    state.committed(changes, positions)
    state.apply()                        # now or some commits later: ONE backend write

Invariants:
1. the backend's rows and the positions stored with them always belong together, but for stores
   that the backend says are being loaded (see :mod:`logstate.changelog.loading`);
2. a layer is applied only on top of the position it was built on, and positions never go back;
3. nothing that is not committed reaches a backend.

Not responsible for: producing, offsets, directories, deciding when to commit or apply.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from logstate.changelog.backend.backend import KeyRange, StoreBackend
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.expiry import Expiry
from logstate.changelog.index_builds import IndexBuilds, indexed_rows
from logstate.changelog.loading import Loads
from logstate.changelog.local_commits import LocalCommits
from logstate.changelog.local_rows import discard_incompatible_rows
from logstate.changelog.row_counts import count_rows
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.segments import SegmentClock
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, StateChanges
from logstate.changelog.segment_offsets import NeededRecords
from logstate.changelog.stored_meta import prefix_of, read_meta
from logstate.changelog.stores.kinds import build_store, kind_of
from logstate.changelog.stores.store_kind import Store
from logstate.changelog.task_lock import TaskLock
from logstate.changelog.view import SnapshotLease, StateView, close_leases, committed_rows
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.stores import StoreSpec


class TaskState:
    """The stores of one task. ``backend`` None keeps even persistent stores in memory."""

    def __init__(
        self,
        specs: Sequence[StoreSpec],
        context: TaskContext,
        *,
        backend: StoreBackend | None = None,
        logs_every_write: bool = False,
        publishes_views: bool = True,
    ) -> None:
        self._memory = MemoryBackend()
        self._persistent: StoreBackend = backend if backend is not None else self._memory
        #: the directory of the persistent stores; it identifies damage of this task
        self.path: Path | None = getattr(backend, "path", None)
        #: on that directory, released when the state is closed
        self.lock: TaskLock | None = None
        self.meta = read_meta(self._persistent)
        discard_incompatible_rows(self.meta, self._persistent, specs)
        self.specs = {spec.name: spec for spec in specs}
        #: committed positions: next changelog offset per logged store; may be ahead of the backend
        self.positions: dict[str, int] = {}
        self.cells: dict[str, TimeCell] = {}
        self.stores: dict[str, Store] = {}
        self._rows: dict[str, Rows] = {}
        #: the same by where they lie
        self._rows_in_memory: dict[str, Rows] = {}
        self._rows_on_disk: dict[str, Rows] = {}
        self._loads = Loads()
        self._unapplied_bytes = 0
        self._writes: dict[str, ChangelogWrites] = {}
        self.needed = NeededRecords(self.meta)
        self._expiring: dict[str, SegmentClock] = {}
        #: clocks that committed rows stand for; those of the cut may be ahead during a restore
        self._row_clocks: dict[str, TimeCell] = {}
        self.index_builds = IndexBuilds(self._persistent, self._renew_snapshots)
        self.expiry = Expiry(context, self.meta, self._row_clocks, self._writes)
        self._committed_clocks: dict[str, int] = {}
        self._journaled_clocks: dict[str, int] = {}
        self._context = context
        for spec in specs:
            self._open_store(spec, logs_every_write)
        only_local = {s.name: self._rows[s.name] for s in specs if s.is_only_local}
        self.local = LocalCommits(self.meta, self._persistent, only_local)
        self._publishes_views = publishes_views
        self._leases: tuple[SnapshotLease, SnapshotLease] | None = None
        #: every lease that a view may still use
        self._live_leases: weakref.WeakSet[SnapshotLease] = weakref.WeakSet()
        #: input positions that the committed rows stand for; the next view has them
        self.inputs: Mapping[TopicPartition, int] = {}
        self.view = StateView({}, {})

    def _open_store(self, spec: StoreSpec, logs_every_write: bool) -> None:
        prefix = prefix_of(self.meta.number_of(spec.name))
        is_memory = spec.in_memory or self._persistent is self._memory
        backend = self._memory if is_memory else self._persistent
        make = indexed_rows if spec.indexes and spec.ttl_ms is None else self.expiry.rows_of
        writes = ChangelogWrites(is_logged=spec.is_logged, logs_every_write=logs_every_write)
        self._writes[spec.name] = writes
        rows = make(spec, prefix, backend, is_cached=not is_memory)
        self._rows[spec.name] = rows
        (self._rows_in_memory if is_memory else self._rows_on_disk)[spec.name] = rows
        if spec.is_logged:
            self.needed.open(spec, in_memory=is_memory)
        if not is_memory and spec.name in self.meta.positions:
            self.positions[spec.name] = self.meta.positions[spec.name]
        kind = kind_of(spec)
        store = build_store(spec, rows, writes, self.expiry.context_of(spec))
        self.stores[spec.name] = store
        self.index_builds.open(spec, rows, store)
        if kind.is_segmented:
            self._expiring[spec.name] = store.segments
        elif kind.is_versioned:
            self._row_clocks[spec.name] = cell = store.restored.cell
            cell.time = self.meta.clocks.get(spec.name, -1)

    # ------------------------------------------------------------------ clocks

    def time_cell(self, name: str) -> TimeCell:
        """The named clock, made at first use."""
        cell = self.cells.get(name)
        if cell is None:
            cell = self.cells[name] = TimeCell(self._committed_clocks.get(name, -1))
        return cell

    def set_clocks(self, clocks: Mapping[str, int]) -> None:
        """Take over the clocks of a committed cut; clocks it does not name start at -1."""
        self._committed_clocks = dict(clocks)
        for name, cell in self.cells.items():
            cell.time = self._committed_clocks.get(name, -1)

    # ------------------------------------------------------------------ commits

    def encode_pending(self) -> None:
        """Encode rows that wait for it as objects, of which the freeze then has fewer."""
        for rows in self._rows.values():
            rows.flush_mirrors()

    def freeze(self) -> StateChanges:
        """Take out the changes since the last commit; processing may go on into the next."""
        # Rows first: a store may have rows that it encodes and logs only now.
        layers = {name: rows.freeze() for name, rows in self._rows.items()}
        return StateChanges(
            writes={name: writes.take() for name, writes in self._writes.items()},
            layers=layers,
            clocks={name: cell.time for name, cell in self.cells.items()},
            first_needed=self.needed.first(self.positions),
            local_rows=self.local.next_numbers(),
        )

    def committed(self, changes: StateChanges, positions: Mapping[str, int]) -> None:
        """The changes are committed; their changelogs end at ``positions``."""
        for name, layer in changes.layers.items():
            self.needed.wrote(name, layer, self.positions.get(name, 0))
            self._rows[name].committed(layer)
            self._unapplied_bytes += layer.data_bytes()
        self.needed.committed = changes.first_needed
        self.local.committed(changes.local_rows)
        self._advance(positions)
        self._committed_clocks = dict(changes.clocks)
        for name, cell in self._row_clocks.items():
            cell.time = changes.clocks[self.specs[name].clock_name]
        self._publish_view()

    def prepare(self, changes: StateChanges, writer: str) -> None:
        """Write the rows without a changelog before the transaction of their commit ends."""
        if changes.local_rows:
            if self.local.is_waiting:
                self.apply()
            self.local.prepare(changes.local_rows, changes.layers, writer)

    def discard(self) -> None:
        """Forget all that is not committed: rows, writes, clocks."""
        for writes in self._writes.values():
            writes.take()
            writes.end_journal(rollback=False)
        for rows in self._rows.values():
            rows.discard()
        self.set_clocks(self._committed_clocks)

    def begin_journal(self) -> None:
        """Start remembering, so that one record's effects can be undone."""
        for name, rows in self._rows.items():
            rows.begin_journal()
            self._writes[name].begin_journal()
        # Behind the rows, which write and count first what others are waiting with.
        self._journaled_clocks = {name: cell.time for name, cell in self.cells.items()}

    def end_journal(self, *, rollback: bool) -> None:
        """Stop remembering; with ``rollback`` undo the effects since ``begin_journal``."""
        for name, rows in self._rows.items():
            rows.end_journal(rollback=rollback)
            self._writes[name].end_journal(rollback=rollback)
        if rollback:
            for name, cell in self.cells.items():
                cell.time = self._journaled_clocks.get(name, -1)

    # ------------------------------------------------------------------ restore

    def expire(self) -> None:
        """Drop rows that the clocks have expired; call it with those of the cut, before a replay.

        Not left to the replay: of rows that expired long ago it may find no record any more, and
        without it they would stay on the disk for ever, unseen.
        """
        for name, segments in self._expiring.items():
            rows = self._rows[name]
            segments.sweep(rows)
            rows.committed(rows.freeze())
            self.needed.expired_before(name, segments.first_part())

    def restore(self, store: str, records: Sequence[LoggedFields], position: int) -> None:
        """Take changelog records into a store; ``position`` is the next offset after them."""
        rows = self._rows[store]
        rows.count_in(None)
        if records:
            self.stores[store].restore(records)
            layer = rows.freeze()
            self.needed.wrote(store, layer, self.positions.get(store, 0))
            layer.is_replayed = True
            rows.committed(layer)
            self._unapplied_bytes += layer.data_bytes()
        self._advance({store: position})

    def load(self, store: str, records: Sequence[FetchedRecord], position: int) -> bool:
        """As :meth:`restore`, past the rows: nothing shows before the next ``apply``.

        False, and nothing done, for a store that has to see the records.
        """
        self._rows[store].count_in(None)
        if not self._loads.add(self.specs[store], self._rows[store], records):
            return False
        self._advance({store: position})
        return True

    def restored(self) -> None:
        """The changelogs' ends are reached, and applied: publish the first view.

        Clocks are what the cut says they are. What stores learn of a replay is less (a sequence
        number whose row came and went within one commit is in no log), and counts where no cut
        names them.
        """
        for name, time in self._committed_clocks.items():
            if name in self.cells:
                self.cells[name].time = time
        count_rows(self.specs, self._rows, self.time_cell)
        self._show_replayed()

    def followed(self) -> None:
        """Publish what a standby has read and applied, with the clocks of its stores.

        A cut does not contain it, and if its task ran here before, the last one is old. For rows
        that were on disk the clock is unknown: it is computed from the rows.
        """
        for name, segments in self._expiring.items():
            segments.reach(self._rows[name])
        for name, row_clock in self._row_clocks.items():
            cell = self.cells[self.specs[name].clock_name]
            cell.time = max(cell.time, row_clock.time)
        self._show_replayed()

    def _show_replayed(self) -> None:
        for store in self._loads.end():
            self._rows[store].drop_cache()
        learnt = {name: cell.time for name, cell in self.cells.items()}
        self._committed_clocks = {**self._committed_clocks, **learnt}
        self._renew_snapshots()

    def trim_points(self) -> dict[str, int]:
        """Windowed store -> offset below which its changelog may be deleted (segment_offsets)."""
        return self.needed.trim_points()

    # ------------------------------------------------------------------ applying

    def unapplied_rows(self) -> int:
        """Committed rows that the backend does not hold yet."""
        in_layers = sum(len(la.rows) for rows in self._rows.values() for la in rows.unapplied())
        return in_layers + self._loads.rows_total()

    @property
    def unapplied_bytes(self) -> int:
        """Keys and values of these rows, each as often as it was committed: what a crash costs."""
        return self._unapplied_bytes + self._loads.bytes_total()

    def unlogged_rows(self) -> list[str]:
        """The stores without a changelog that hold rows: these have no other copy."""
        return [
            name
            for name, rows in self._rows.items()
            if not self.specs[name].is_logged and next(rows.scan(), None) is not None
        ]

    def has_many_unapplied(self, layers_max: int) -> bool:
        """Whether any store has so many committed layers that reading through them costs."""
        return any(len(rows.unapplied()) >= layers_max for rows in self._rows.values())

    @cached_property
    def applies_always(self) -> bool:
        """True where rows have no other durable copy, or one that ends at the commit.

        Persistent stores without a changelog, and stores whose source topic is their changelog.
        """
        return any(
            not spec.in_memory and (not spec.is_logged or spec.source_topic is not None)
            for spec in self.specs.values()
        )

    def empty_at_next_opening(self, stores: Iterable[str]) -> None:
        """Drop the rows of these stores, and of no others; close it afterwards."""
        self.apply()
        on_disk = [name for name in stores if name in self._rows_on_disk]
        for name in on_disk:
            for known in (self.meta.clocks, self.meta.segment_offsets, self.meta.local_rows):
                known.pop(name, None)
        self._persistent.write(self.meta.mark(on_disk))

    def apply(self, caught_up_at_ms: int | None = None) -> int:
        """Write all committed rows and the positions; returns the number of rows.

        In one backend write, except large loads, which have separate steps before it.
        """
        if caught_up_at_ms is not None:
            self.meta.caught_up_at_ms = caught_up_at_ms
        self._unapplied_bytes = 0
        count = self._apply_to(self._memory, self._rows_in_memory)
        if self._persistent is self._memory:
            self._renew_snapshots()
            return count
        on_disk = list(self._rows_on_disk)
        # With the positions that were written last: rows come first, and this speaks of neither.
        count += self._loads.ingest(self._persistent, on_disk, self.meta.mark)
        self.meta.positions = {
            name: position
            for name, position in self.positions.items()
            if name in self._rows_on_disk
        }
        self.meta.clocks = {name: cell.time for name, cell in self._row_clocks.items()}
        self.meta.segment_offsets = self.needed.known(self._rows_on_disk)
        extra = {**self.meta.row(), **self.local.applied_with()}
        count += self._apply_to(self._persistent, self._rows_on_disk, extra=extra)
        self._renew_snapshots()
        return count

    def _apply_to(
        self,
        backend: StoreBackend,
        rows_of: Mapping[str, Rows],
        *,
        extra: Mapping[bytes, bytes | None] | None = None,
    ) -> int:
        merged: dict[bytes, bytes | None] = dict(extra or {})
        ranges: list[KeyRange] = []
        touched: list[tuple[str, Rows]] = []
        for name, rows in rows_of.items():
            layers, loaded = rows.unapplied(), self._loads.rows_of(name)
            if not layers and not loaded:
                continue
            touched.append((name, rows))
            for prefix, layer in rows.placed(layers):
                for key, value in layer.rows.items():
                    merged[prefix + key] = value
                ranges += [(prefix + lower, prefix + upper) for lower, upper in layer.ranges]
            merged |= loaded  # replayed rows are newer than those committed before
        if merged or ranges:
            backend.write(merged, ranges)
        for name, rows in touched:
            rows.applied()
            self._loads.written(name)
        return len(merged)

    # ------------------------------------------------------------------ bounds and end

    def cached_rows(self) -> int:
        """Rows held in memory over all stores."""
        return sum(rows.cached_rows() for rows in self._rows.values())

    def cached_bytes(self) -> int:
        """Memory of the rows that can be evicted, over all stores; or more, see ``recount``."""
        return sum(rows.cached_bytes() for rows in self._rows.values())

    def recount_cached(self) -> int:
        """The same, counted row by row."""
        for rows in self._rows.values():
            rows.recount()
        return self.cached_bytes()

    def evict_cached(self, share: float) -> None:
        """Drop a share of the clean rows of each store, the oldest first."""
        for rows in self._rows.values():
            rows.evict(share)

    def release(self, count: int) -> int:
        """Let go of about so many rows of what will be discarded or closed; how many it were."""
        released = 0
        for rows in self._rows.values():
            released += rows.release(count - released)
        return released

    def drop_caches(self) -> None:
        """Free clean rows."""
        for rows in self._rows.values():
            rows.drop_cache()

    def close(self) -> None:
        """Release the backend; rows that were committed but not applied come back by replay."""
        self.view = StateView({}, {})
        self._leases = None
        try:
            close_leases(list(self._live_leases))
            self._memory.close()
            if self._persistent is not self._memory:
                self._persistent.close()
        finally:
            if self.lock is not None:
                self.lock.release()

    def _advance(self, positions: Mapping[str, int]) -> None:
        for name, position in positions.items():
            current = self.positions.get(name, 0)
            assert position >= current, f"position of {name} goes back: {current} -> {position}"
            self.positions[name] = position

    # ------------------------------------------------------------------ views for queries

    def publish_views(self) -> None:
        """Publish views from now on, where that was not done from the start."""
        self._publishes_views = True
        self._renew_snapshots()

    def _renew_snapshots(self) -> None:
        if not self._publishes_views:
            return
        self._leases = (
            SnapshotLease(self._memory.snapshot()),
            SnapshotLease(self._persistent.snapshot()),
        )
        self._live_leases.update(self._leases)
        self._publish_view()

    def _publish_view(self) -> None:
        if self._leases is None:
            return
        memory, persistent = self._leases
        rows_of = {
            name: committed_rows(rows, memory if name in self._rows_in_memory else persistent)
            for name, rows in self._rows.items()
        }
        self.view = StateView(rows_of, self._committed_clocks, self.inputs)
