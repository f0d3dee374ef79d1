"""The stores of an instance with worker processes: each request goes to the partition's worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.app.instance.reports import (
    WorkerStatus,
    age_ms,
    copier_of,
    owner_of,
    standbys_of,
    task_count,
    tasks_of,
)
from logstate.app.instance.worker_process import WorkerProcess
from logstate.contracts.clock import Clock
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.partitioner import StorePlace, place_of
from logstate.contracts.records import TaskId
from logstate.queries.queries import ReadableStores, not_here
from logstate.queries.requests import Answer, ReadRequest, rows_of


class WorkerStores(ReadableStores):
    """Reads stores through worker processes, from any thread.

    Reads over several partitions ask them one after the other, and fetch rows in pages.
    """

    def __init__(
        self,
        places: Mapping[str, StorePlace],
        statuses: Callable[[], Mapping[int, WorkerStatus]],
        processes: Mapping[int, WorkerProcess],
        clock: Clock,
        why_ended: Callable[[], str | None],
    ) -> None:
        super().__init__(places, why_ended)
        self._statuses = statuses
        self._processes = processes
        self._clock = clock

    def read(self, request: ReadRequest) -> Answer:
        store, partition = request.store, request.partition
        place = place_of(self.places, store)
        here = self.partitions(place, standbys=request.standby)
        if partition not in here:
            raise not_here(store, partition, list(here))
        statuses, task = self._statuses(), _task(place, partition)
        owner = _any_started(statuses) if place.is_global else owner_of(statuses, task)
        if owner is None and request.standby:
            owner = copier_of(statuses, task)
        process = None if owner is None else self._processes.get(owner)
        if process is None:
            raise StoreUnavailableError(
                f"store {store!r}: partition {partition} is moving to another worker; try again"
            )
        reply = process.ask(request)
        value = reply.value
        if reply.rows is not None:
            ask = process.ask
            value = rows_of(reply, lambda at: ask(request.page(at)), process.close_cursor)
        return Answer(value, reply.positions, reply.lag)

    def partitions(self, place: StorePlace, *, standbys: bool) -> Mapping[int, bool]:
        self.check_running(place.name)
        statuses = self._statuses()
        if place.is_global:
            return {} if _any_started(statuses) is None else {0: True}
        copied: dict[str, Any] = {}
        if standbys:
            copied = {task: lag is not None for task, lag in standbys_of(statuses).items()}
        owned = {task: report.is_readable for task, report in tasks_of(statuses).items()}
        found = ((TaskId.parse(task), readable) for task, readable in {**copied, **owned}.items())
        here = {t.partition: readable for t, readable in found if _is_of(place, t)}
        return dict(sorted(here.items()))

    def task_count(self, place: StorePlace) -> int | None:
        if place.is_global:
            return 1
        return task_count(self._statuses().values(), place.sub_topology)

    def age_ms(self, place: StorePlace, partition: int, *, standbys: bool) -> float:  # noqa: ARG002
        statuses, task = self._statuses(), _task(place, partition)
        owner = owner_of(statuses, task)
        if owner is None:
            return 0.0
        return age_ms(statuses[owner], task, self._clock.monotonic_ms())

    def standby_lag(self, place: StorePlace) -> int:
        lags = {TaskId.parse(task): lag or 0 for task, lag in standbys_of(self._statuses()).items()}
        return sum(lag for task, lag in lags.items() if _is_of(place, task))


def _task(place: StorePlace, partition: int) -> str:
    return str(TaskId(place.sub_topology, partition))


def _is_of(place: StorePlace, task: TaskId) -> bool:
    return task.sub_topology == place.sub_topology


def _any_started(statuses: Mapping[int, WorkerStatus]) -> int | None:
    """Return a worker that has read the global tables: any that has started."""
    started = (number for number, one in sorted(statuses.items()) if one.report.facts.is_started)
    return next(started, None)
