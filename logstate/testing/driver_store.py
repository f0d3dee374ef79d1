"""A store as the driver returns it: the task's store, with errors that name its methods."""

from __future__ import annotations

from typing import Any

from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.stores import ARGUMENTS, StoreSpec, check_arguments, no_such_read
from logstate.task.task import Task
from logstate.topology.operators.streams.timed_store import as_written_by_users
from logstate.topology.plan.plan import Topology


class DriverStore:
    """Has all methods of the store; any other raises StoreError with the existing ones.

    It reads like queries, and writes like processors.
    """

    def __init__(self, store: Any, spec: StoreSpec) -> None:
        self._store = store
        self._written = as_written_by_users(store, spec.name)
        self._queried = getattr(store, "queried", self._written)
        self._spec = spec
        self._encode_key = spec.key.serializer(f"{spec.name}-changelog", True)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and not hasattr(self._store, name):
            raise no_such_read(self._spec, self._store, name)
        read_by = self._queried if hasattr(self._queried, name) else self._written
        found = getattr(read_by, name)
        if name not in ARGUMENTS:
            return found

        def read(*arguments: Any, **options: Any) -> Any:
            check_arguments(self._spec, self._encode_key, name, arguments, options)
            return found(*arguments, **options)

        return read


def driver_store(topology: Topology, task: Task, name: str) -> DriverStore:
    """Return the store of that name; raise StoreUnavailableError if there is none."""
    specs = {**topology.stores, **topology.global_stores}
    if name not in specs:
        raise StoreUnavailableError(f"there is no store {name!r}; the topology has {sorted(specs)}")
    return DriverStore(task.store(name), specs[name])
