"""The reader of the stores in this process: a request and the tasks' views give an answer.

A task publishes an immutable view at each commit, and the first request for a store creates a
reader over it, for all requests of the view. A reader has the store's reads and no writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.stores.readers import MakeReader, reader_maker
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.partitioner import StorePlace, partition_of, place_of
from logstate.contracts.records import TaskId
from logstate.contracts.stores import no_such_read
from logstate.queries.global_stores import GlobalStores
from logstate.queries.queries import ReadableStores, not_here
from logstate.queries.requests import Answer, ReadRequest
from logstate.task.owned_task import OwnedTask, Stage

#: the worker creates the first view of global stores at its next turn
_FIRST_VIEW_S = 10.0


def _nothing() -> float | None:
    return None


@dataclass(frozen=True)
class Freshness:
    """Computes the age of committed rows by a monotonic clock.

    Committed rows stay readable while the brokers are unavailable and while their task restarts;
    then they lack the records that were processed since, here or elsewhere. Their age is the time
    since they were last known to be the newest: since the last commit, or since the task had
    nothing to commit and the brokers responded. It does not include records that wait to be
    processed (the lag does).
    """

    now_ms: Callable[[], float | None] = _nothing
    #: returns since when the brokers are unavailable
    away_since_ms: Callable[[], float | None] = _nothing

    def age_ms(self, owned: OwnedTask) -> float:
        """Return the age of the committed rows of a task that ran."""
        now, current, away = self.now_ms(), owned.current_ms, self.away_since_ms()
        if now is None or current is None:
            return 0.0
        return max(0.0, now - (current if away is None else min(current, away)))

    def check(self, store: str, owned: OwnedTask, max_age_ms: int) -> None:
        """Raise StoreUnavailableError if the rows are older than allowed."""
        age_ms = self.age_ms(owned)
        if age_ms <= max_age_ms:
            return
        why = (
            f"its task is {owned.stage.value}"
            if self.away_since_ms() is None
            else "the brokers are unavailable"
        )
        raise StoreUnavailableError(
            f"store {store!r}: the rows of partition {owned.task_id.partition} here are"
            f" {age_ms / 1000:.1f} s old, and max_age allows"
            f" {max_age_ms / 1000:g} s; {why}. Retry, ask another instance, or accept"
            " older results with a larger max_age"
        )


class LocalStores(ReadableStores):
    """Reads stores from the tasks of this process, from any thread.

    Views of in-memory global stores need occasional copies, so they are created from the first
    request on.
    """

    def __init__(
        self,
        places: Mapping[str, StorePlace],
        application_id: str,
        tasks: Callable[[], Mapping[TaskId, OwnedTask]],
        task_counts: Callable[[int], int | None],
        freshness: Freshness | None = None,
        *,
        standbys: Callable[[], Mapping[TaskId, OwnedTask]] = dict,
        global_stores: Callable[[], GlobalStores | None] = lambda: None,
        why_ended: Callable[[], str | None] = lambda: None,
        partition_for: Callable[[bytes, int], int] = partition_of,
    ) -> None:
        """``task_counts`` returns the partition count of a sub-topology."""
        super().__init__(places, why_ended, partition_for)
        self.freshness = freshness or Freshness()
        self._application_id = application_id
        self._own, self._standbys = tasks, standbys
        self._task_counts = task_counts
        self._global_stores = global_stores
        #: store -> makes a reader of a view; serdes are bound for the first one
        self._makers: dict[str, MakeReader] = {
            name: partial(self._new_reader, place) for name, place in places.items()
        }

    def read(self, request: ReadRequest) -> Answer:
        store = request.store
        place = place_of(self.places, store)
        task_id = TaskId(place.sub_topology, request.partition)
        owned = self._tasks(place, request.standby).get(task_id)
        if owned is None:
            raise self._not_here(place, request)
        task = owned.task_or_none
        view = None if task is None else task.state.view
        if view is None or not view.rows or not is_readable(owned):
            raise StoreUnavailableError(
                f"store {store!r}: partition {request.partition} is {owned.stage.value} on this"
                f" instance ({_progress(owned)}); retry when it is done"
            )
        if request.max_age_ms is not None:
            self.freshness.check(store, owned, request.max_age_ms)
        reader = view.reader(store, self._makers[store])
        method = getattr(reader, request.read, None)
        if method is None:
            raise no_such_read(place.spec, reader, request.read)
        value = method(*request.arguments, **request.options)
        if not request.instance:
            return Answer(value)
        if task_id not in self._tasks(place, request.standby):
            raise self._not_here(place, request)
        if owned.stage is Stage.STANDBY:
            return Answer(value, {}, owned.shown_lag)
        return Answer(value, {str(partition): offset for partition, offset in view.inputs.items()})

    def partitions(self, place: StorePlace, *, standbys: bool) -> Mapping[int, bool]:
        return {o.task_id.partition: is_readable(o) for o in self._of(place, standbys=standbys)}

    def task_count(self, place: StorePlace) -> int | None:
        return 1 if place.is_global else self._task_counts(place.sub_topology)

    def age_ms(self, place: StorePlace, partition: int, *, standbys: bool) -> float:
        tasks = self._tasks(place, standbys)
        owned = tasks.get(TaskId(place.sub_topology, partition))
        return 0.0 if owned is None else self.freshness.age_ms(owned)

    def standby_lag(self, place: StorePlace) -> int:
        return sum(owned.shown_lag or 0 for owned in self._of(place, standbys=True))

    # ------------------------------------------------------------------ pieces

    def _of(self, place: StorePlace, *, standbys: bool) -> list[OwnedTask]:
        tasks = sorted(self._tasks(place, standbys).items())
        return [owned for task, owned in tasks if task.sub_topology == place.sub_topology]

    def _not_here(self, place: StorePlace, request: ReadRequest) -> StoreUnavailableError:
        here = self.partitions(place, standbys=request.standby)
        return not_here(place.name, request.partition, list(here))

    def _tasks(self, place: StorePlace, standbys: bool) -> Mapping[TaskId, OwnedTask]:
        if self._why_ended() is not None:
            self.check_running(place.name)
        if place.is_global:
            return self._of_global(place)
        return {**self._standbys(), **self._own()} if standbys else self._own()

    def _of_global(self, place: StorePlace) -> Mapping[TaskId, OwnedTask]:
        globals_ = self._global_stores()
        if globals_ is None:
            raise StoreUnavailableError(
                f"global store {place.name!r} cannot be read: the application has not started, or"
                " has ended"
            )
        task = globals_.queried(place.sub_topology, _FIRST_VIEW_S)
        if task is None:
            raise StoreUnavailableError(
                f"global store {place.name!r} cannot be read: its worker is busy, or has ended;"
                " try again"
            )
        owned = OwnedTask(task.task_id, task.partitions, 0, task, Stage.RUNNING)
        owned.current_ms = self.freshness.now_ms()  # except for unavailable brokers
        return {task.task_id: owned}

    def _new_reader(self, place: StorePlace, rows: ReadableRows, clocks: Mapping[str, int]) -> Any:
        make = self._makers[place.name] = reader_maker(place.spec, self._application_id)
        return make(rows, clocks)


def is_readable(owned: OwnedTask) -> bool:
    """Return whether committed rows can be read: also while a task restarts after it ran.

    A task that has restored its rows and has not run cannot be read: their age is unknown.
    """
    return owned.current_ms is not None or owned.stage is Stage.RUNNING


def _progress(owned: OwnedTask) -> str:
    if not owned.targets:
        return "waiting for its committed offsets"
    parts = []
    task = owned.task_or_none
    for target in owned.targets:
        position = 0 if task is None else task.state.positions.get(target.store, 0)
        parts.append(f"{target.store}: offset {position} of {target.target}")
    return ", ".join(parts)
