"""Reading a global store from any thread: ``app.store("names").get("ada")``.

Every instance has all rows of it, so nothing is ever elsewhere. What a query sees is what the
instance has read of the topic so far, whole batches of it. Global stores live in memory, and views
of them cost copying now and then, so they are made from the first query on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import TaskId
from logstate.contracts.stores import StoreSpec
from logstate.queries.global_stores import GlobalStores
from logstate.queries.queries import QueryableStore
from logstate.task.owned_task import OwnedTask, Stage

#: the worker makes the first view at its next turn
_FIRST_VIEW_S = 10.0


class GlobalQueryableStore(QueryableStore):
    """A global store as this instance has it. ``partition=`` has no meaning here."""

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        sub_topology: int,
        globals_: Callable[[], GlobalStores | None],
    ) -> None:
        super().__init__(
            spec, application_id, self._owned, sub_topology, lambda: 1, _only_partition
        )
        self._globals = globals_

    def _owned(self) -> Mapping[TaskId, OwnedTask]:
        globals_ = self._globals()
        if globals_ is None:
            raise StoreUnavailableError(
                f"global store {self.name!r} cannot be read: the application has not started, or"
                " has ended"
            )
        task = globals_.queried(self._sub_topology, _FIRST_VIEW_S)
        if task is None:
            raise StoreUnavailableError(
                f"global store {self.name!r} cannot be read yet: the worker is busy; try again"
            )
        return {task.task_id: OwnedTask(task.task_id, task.partitions, 0, task, Stage.RUNNING)}


def _only_partition(key: bytes, count: int) -> int:  # noqa: ARG001  wherever it came from
    return 0
