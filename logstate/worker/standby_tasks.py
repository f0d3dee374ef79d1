"""Choose the tasks of which a worker keeps standbys, and follow them between its own work.

The members of the group come from outside (:mod:`logstate.directory`) and may be late or wrong.
They decide what is copied, never what is owned: only the group decides that.

A worker keeps the standbys of ``standby_assignment``, and standbys of the tasks that it would own
if the group were as reported: after a death, or before a member joins, the next owners have the
rows before the group has noticed.

A member that is about to join announces itself first, follows the tasks that the group will assign
to it, and joins when it has their state (``warm_up``), both those before and those after the other
members that are about to join. Members that will get other tasks because of it learn of it and
follow those as well. It waits only for tasks that another member has: while no member has a task,
its records are not processed. This is the case when a static member comes back.

A member whose tasks differ from those that it would have according to the reports asks the group
instead of waiting for a heartbeat (:mod:`logstate.worker.heartbeat_backoff`). So does a worker of
an instance when a sibling has joined or left, or owns fewer tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logstate.contracts.clients import GroupConsumer, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.records import TaskId
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.standby_assignor import Inputs, Peer, standby_assignment
from logstate.restore.standbys import Standbys
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan
from logstate.worker.assignment import WorkerControl
from logstate.worker.heartbeat_backoff import HeartbeatBackoff, SiblingWorkers

_LOGGER = logging.getLogger(__name__)

#: how long an idle worker waits for records of standbys before its next turn
_IDLE_S = 0.01
#: pause of standbys after a change of the assignment, while tasks are started
_MOVING_MS = 200.0
#: interval of checks by a member that has not joined yet
_LOOK_S = 0.02


@dataclass(frozen=True)
class StandbyReport:
    """The state of one standby."""

    #: lag behind the changelog ends of a second ago, in offsets; None: not open yet
    lag: int | None


class StandbyTasks:
    """The standbys of a worker. There are none before the start and after the end."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        wait: Callable[[float], None],
        control: WorkerControl,
    ) -> None:
        self._config = config
        self._clock = clock
        self._wait = wait
        self._control = control
        self._standbys: Standbys | None = None
        self._plan: BoundPlan | None = None
        self._inputs = Inputs({}, {})
        self._ask_member_id: Callable[[], str] = lambda: ""
        #: id of this worker, also before it has joined; empty if unknown
        self.member_id = ""
        #: reading it calls a thread of the client, which costs more than the rest of a turn
        self._is_id_known = False
        self._is_joining = False
        #: inputs of the current choice
        self._chosen_by: tuple[tuple[Peer, ...], str, tuple[Peer, ...]] | None = None
        self._chosen: frozenset[TaskId] = frozenset()
        #: tasks that this member would own
        self._coming: frozenset[TaskId] = frozenset()
        #: the reported group included this member
        self._is_known = False
        self._heartbeat_backoff = HeartbeatBackoff()
        self._siblings = SiblingWorkers()
        self.reports: Mapping[TaskId, StandbyReport] = {}
        self._readable: Mapping[TaskId, OwnedTask] = {}
        #: number of standbys that became tasks of this worker
        self.promoted_total = 0

    def begin(self, plan: BoundPlan, standbys: Standbys, member_id: Callable[[], str]) -> None:
        """Begin after the start of the worker."""
        self._plan = plan
        self._standbys = standbys
        self._ask_member_id = member_id
        self.member_id = ""
        self._is_id_known = False
        tasks = {task_id: plan.input_partitions(task_id) for task_id in plan.task_ids()}
        self._inputs = Inputs(tasks, plan.partition_counts)
        self._chosen_by = None

    def rebalanced(self) -> None:
        """Handle a rebalance: the member id and the tasks may have changed."""
        self._is_id_known = False
        if self._standbys is not None:
            self._standbys.rest(_MOVING_MS)

    def turn(self, owned: Mapping[TaskId, OwnedTask], *, is_busy: bool) -> Steps[None]:
        """Do a part of the work. ``owned``: the worker's own tasks; ``is_busy``: they have
        records.
        """
        if self._standbys is None or not self._is_used:
            return
        self._choose_standbys()
        standbys = self._standbys
        standbys.want(self._chosen - owned.keys())
        wait_s = 0.0 if is_busy or not standbys.has_more else _IDLE_S
        yield from standbys.turn(wait_s, busy=bool(owned))
        self.reports = {
            task_id: StandbyReport(_lag(one) if one.stage is Stage.STANDBY else None)
            for task_id, one in standbys.tasks.items()
        }
        self._readable = {
            task_id: one for task_id, one in standbys.tasks.items() if one.current_ms is not None
        }

    def warm_up(self, is_stopping: Callable[[], bool]) -> Steps[None]:
        """Before joining, follow the tasks that this member will get until nearly all is read."""
        config = self._config
        if not config.standby_replicas or config.acceptable_lag is None:
            return
        since_ms = self._clock.monotonic_ms()
        self._is_joining = True
        while not is_stopping():
            self._choose_standbys()
            why = self._may_join(self._clock.monotonic_ms() - since_ms)
            if why:
                _LOGGER.info("joining the group: %s", why)
                self._is_joining = False
                return
            yield from self.turn({}, is_busy=False)
            if not self.has_more:
                yield Step("wait_for_peers", self._wait, (_LOOK_S,))

    def _may_join(self, waited_ms: float) -> str:
        """Return the reason for joining now; empty if it is too early."""
        config = self._config
        if not self._own_name:
            return "there is no member id before joining (classic protocol)"
        if waited_ms >= config.warm_up_timeout_ms:
            return f"{len(self.reports)} tasks are not warm, but the warm-up timeout is over"
        peers = self._peers()
        if self._own_name not in {peer.id for peer in peers}:
            is_long = waited_ms >= config.peers_timeout_ms
            return "no reports of other members were received" if is_long else ""
        if len({peer.instance for peer in peers}) == 1:
            return "there is no other instance"
        elsewhere = [task_id for task_id in self._stateful() if self._is_elsewhere(task_id)]
        if not elsewhere:
            return "no other instance has any of its tasks with state"
        lags = [self.reports[t].lag if t in self.reports else None for t in elsewhere]
        limit = config.acceptable_lag or 0
        is_warm = all(lag is not None and lag <= limit for lag in lags)
        return f"its {len(lags)} tasks with state are warm" if is_warm else ""

    def _stateful(self) -> list[TaskId]:
        return [t for t in self._coming if self._plan is not None and self._plan.changelogs(t)]

    def _is_elsewhere(self, task_id: TaskId) -> bool:
        """Return True if another instance has the task, as far as known."""
        holders, task = self._control.group_view.holders, str(task_id)
        if holders is None:
            return True
        return any(task in one.tasks and self._own_name not in one.members for one in holders)

    def _peers(self) -> tuple[Peer, ...]:
        """Return the reported members. A static member knows itself before others report it."""
        view, own = self._control.group_view, self._config.instance_id
        is_known = own is None or own in {peer.id for peer in view.peers}
        if is_known or not self._is_joining or view.holders is None:
            return view.peers
        return (*view.peers, Peer(self.member_id, own, ""))

    @property
    def _is_used(self) -> bool:
        return bool(self._config.standby_replicas or self._control.group_view.peers)

    @property
    def _own_name(self) -> str:
        return self._config.instance_id or self.member_id

    @property
    def has_more(self) -> bool:
        """True if records of standbys can be read."""
        return self._standbys is not None and self._standbys.has_more

    def ask(self, group: GroupConsumer, owned: Mapping[TaskId, OwnedTask]) -> Steps[None]:
        """Ask the group for an expected change before the next heartbeat."""
        now_ms = self._clock.monotonic_ms()
        if self._heartbeat_backoff.is_due(self._waits_for(owned, now_ms), now_ms):
            yield Step("ask_group", group.ask_group)

    def _waits_for(self, owned: Mapping[TaskId, OwnedTask], now_ms: float) -> object:
        """Return a value that identifies the expected change: any task, other tasks; None: none."""
        announced = self._siblings.announces(self._control.siblings, len(owned), now_ms)
        if not owned:
            return "tasks"
        if self._is_known and self._coming != owned.keys():
            view = self._control.group_view
            return view.peers, view.holders, frozenset(owned)
        return announced

    def hand_over(self, owned: OwnedTask) -> None:
        """Give an assigned task the state of its standby."""
        owned.task_or_none = self.take(owned.task_id)

    def take(self, task_id: TaskId) -> Task | None:
        """Return the standby of a task that is now assigned here; None if there is none."""
        task = None if self._standbys is None else self._standbys.take(task_id)
        self.reports = {followed: r for followed, r in self.reports.items() if followed != task_id}
        self._readable = {t: one for t, one in self._readable.items() if t != task_id}
        self.promoted_total += task is not None
        return task

    def keep(self, task_id: TaskId, task: Task) -> bool:
        """Keep a task that moves to another member as a standby of its committed state, if used."""
        standbys = self._standbys
        if standbys is None or not self._is_used:
            return False
        standbys.keep(task_id, task)
        return True

    def queried(self) -> Mapping[TaskId, OwnedTask]:
        """Return standbys with readable rows and keep them current for a while. From any thread."""
        standbys = self._standbys
        if standbys is not None:
            standbys.read_ms = self._clock.monotonic_ms()
        return self._readable

    @property
    def readable_total(self) -> int:
        """Number of standbys with readable rows."""
        return len(self._readable)

    @property
    def tasks(self) -> Mapping[TaskId, OwnedTask]:
        """The tasks that are followed now; in the worker thread."""
        return {} if self._standbys is None else self._standbys.tasks

    def close(self) -> Steps[None]:
        """Close all standbys."""
        standbys, self._standbys, self.reports = self._standbys, None, {}
        self._readable = {}
        if standbys is not None:
            yield from standbys.close()

    def _choose_standbys(self) -> None:
        if not self._is_id_known:
            self.member_id = self._ask_member_id()
            self._is_id_known = self.member_id != ""
        peers, own = self._peers(), self._own_name
        by = peers, own, self._group(peers)
        if by == self._chosen_by:
            return
        self._chosen_by = by
        self._is_known = own in {peer.id for peer in peers}
        if not self._is_known:
            return  # the reporting instance does not know this member yet, or anymore
        places = standby_assignment(self._inputs, peers, self._config.standby_replicas)
        kept = {t for t, found in places.items() if any(p.id == own for p in found)}
        owners = [*self._inputs.owners(peers).items(), *self._inputs.owners(by[2]).items()]
        self._coming = frozenset(task for task, peer in owners if peer.id == own)
        self._chosen = self._coming | kept

    def _group(self, peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
        """Return the members that this one finds if it joins before all others about to join."""
        if not self._is_joining:
            return ()
        holders = self._control.group_view.holders or ()
        there = {self._own_name}.union(*(one.members for one in holders if one.tasks))
        return tuple(peer for peer in peers if peer.id in there)


def _lag(owned: OwnedTask) -> int:
    """Return the offsets between a standby and the last known ends."""
    task = owned.task_or_none
    if task is None:
        return sum(target.target for target in owned.targets)
    at = task.state.positions
    return sum(max(0, target.target - at.get(target.store, 0)) for target in owned.targets)
