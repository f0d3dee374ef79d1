"""The reader of the stores in this process: a request and the tasks' views give an answer.

A task publishes an immutable view at each commit, and the first request for a store creates a
reader over it, for all requests of the view. A reader has the store's reads and no writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.stores.kinds import MakeReader, reader_maker
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


def _no_stream_time() -> float | None:
    return None


@dataclass(frozen=True)
class Freshness:
    """Computes the age of committed rows by a monotonic clock.

    Two times count:

    - the *silence*, since the instance last knew that the task is its own: since the last commit,
      or since the task had nothing to commit and the brokers responded. Another instance may have
      changed the rows since.
    - the *age*, since the rows last included everything that the inputs of the task contained. Rows
      of a task that lags behind are older than its last commit.
    """

    now_ms: Callable[[], float | None] = _no_stream_time
    #: returns since when the brokers are unavailable
    away_since_ms: Callable[[], float | None] = _no_stream_time

    def silence_ms(self, owned: OwnedTask) -> float:
        """Return the time since a task that ran was last known to be this instance's."""
        now, current, away = self.now_ms(), owned.current_ms, self.away_since_ms()
        if now is None or current is None:
            return 0.0
        return max(0.0, now - (current if away is None else min(current, away)))

    def age_ms(self, owned: OwnedTask) -> float:
        """Return the age of the committed rows of a task that ran; infinite: not known yet."""
        now = self.now_ms()
        if now is None or owned.current_ms is None:
            return 0.0
        if owned.caught_up_ms is None:
            return inf
        return max(self.silence_ms(owned), now - owned.caught_up_ms)

    def check(self, store: str, owned: OwnedTask, max_silence_ms: int) -> None:
        """Raise StoreUnavailableError if the task may be another instance's by now."""
        silence_ms = self.silence_ms(owned)
        if silence_ms > max_silence_ms:
            raise self._too_old(store, owned, silence_ms, max_silence_ms)

    def check_age(self, store: str, owned: OwnedTask, max_age_ms: int) -> None:
        """Raise StoreUnavailableError if the rows are older than allowed."""
        age_ms = self.age_ms(owned)
        if age_ms > max_age_ms:
            raise self._too_old(store, owned, age_ms, max_age_ms)

    def _too_old(
        self, store: str, owned: OwnedTask, age_ms: float, limit_ms: int
    ) -> StoreUnavailableError:
        if self.away_since_ms() is not None:
            why = "the brokers are unavailable"
        elif owned.stage is Stage.RUNNING and age_ms > self.silence_ms(owned):
            why = "its task is behind the ends of its inputs"
        else:
            why = f"its task is {owned.stage.value}"
        return StoreUnavailableError(
            f"store {store!r}: the rows of partition {owned.task_id.partition} here are"
            f" {_text(age_ms)}, and max_age allows {limit_ms / 1000:g} s; {why}. Retry, ask another"
            " instance, or accept older results with a larger max_age"
        )


def _text(age_ms: float) -> str:
    return "of unknown age" if age_ms == inf else f"{age_ms / 1000:.1f} s old"


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
        if view is None or not view.rows or not owned.is_readable:
            raise StoreUnavailableError(
                f"store {store!r}: partition {request.partition} is {owned.stage.value} on this"
                f" instance ({_progress(owned)}); retry when it is done"
            )
        if request.max_silence_ms is not None:
            self.freshness.check(store, owned, request.max_silence_ms)
        if request.max_age_ms is not None:
            self.freshness.check_age(store, owned, request.max_age_ms)
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
        return {
            o.task_id.partition: o.is_readable for o in self._tasks_with(place, standbys=standbys)
        }

    def task_count(self, place: StorePlace) -> int | None:
        return 1 if place.is_global else self._task_counts(place.sub_topology)

    def age_ms(self, place: StorePlace, partition: int, *, standbys: bool) -> float:
        tasks = self._tasks(place, standbys)
        owned = tasks.get(TaskId(place.sub_topology, partition))
        return 0.0 if owned is None else self.freshness.age_ms(owned)

    def standby_lag(self, place: StorePlace) -> int:
        return sum(owned.shown_lag or 0 for owned in self._tasks_with(place, standbys=True))

    # ------------------------------------------------------------------ pieces

    def _tasks_with(self, place: StorePlace, *, standbys: bool) -> list[OwnedTask]:
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
        # Except for unavailable brokers; a query sees all that its instance has read so far.
        owned.current_ms = owned.caught_up_ms = self.freshness.now_ms()
        return {task.task_id: owned}

    def _new_reader(self, place: StorePlace, rows: ReadableRows, clocks: Mapping[str, int]) -> Any:
        make = self._makers[place.name] = reader_maker(place.spec, self._application_id)
        return make(rows, clocks)


def _progress(owned: OwnedTask) -> str:
    if not owned.targets:
        return "waiting for its committed offsets"
    parts = []
    task = owned.task_or_none
    for target in owned.targets:
        position = 0 if task is None else task.state.positions.get(target.store, 0)
        parts.append(f"{target.store}: offset {position} of {target.target}")
    return ", ".join(parts)
