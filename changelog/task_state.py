"""Opening the state of a task: which backend, where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.state import TaskState
from logstate.contracts.processing import TaskContext
from logstate.contracts.rocksdb_config import DEFAULT_ROCKSDB, RocksDbConfig
from logstate.contracts.stores import StoreSpec


def open_task_state(
    specs: Sequence[StoreSpec],
    context: TaskContext,
    *,
    state_dir: Path | None,
    rocksdb: RocksDbConfig = DEFAULT_ROCKSDB,
    logs_every_write: bool = False,
    publishes_views: bool = True,
) -> TaskState:
    """The stores of a task over RocksDB below ``state_dir``, or in memory where that is None.

    RocksDB is imported and opened only where a store asks for it: a stateless task costs nothing.
    """
    backend: StoreBackend | None = None
    if state_dir is not None and any(not spec.in_memory for spec in specs):
        from logstate.changelog.backend.rocks import RocksBackend

        backend = RocksBackend(state_dir, config=rocksdb)
    how = {"logs_every_write": logs_every_write, "publishes_views": publishes_views}
    try:
        return TaskState(specs, context, backend=backend, **how)
    except Exception:
        if backend is not None:
            backend.close()  # so that a damaged directory can be moved away
        raise
