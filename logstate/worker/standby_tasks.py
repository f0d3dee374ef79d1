"""Which tasks of others a worker follows, and when: between its own work, from what it was told.

Who is in the group comes from outside, by whatever way (:mod:`logstate.directory`), and may be late
or wrong. It decides what is copied, never what is owned: that the group alone says.

Followed is what ``standby_assignment`` puts here, and what this member would have if the group were
as it was told: after a death, or before somebody joins, the heirs have the rows before the group
has noticed.

A member that is about to join tells of itself first, follows what the group will give it, and joins
when it has that (``warm_up``): before others join that are about to, and after. Those that will be
given other tasks because of it see it coming and follow them as well. It waits for what others
have: of a task that nobody has, every second without it is one in which nobody processes its
records. So it is where a static member comes back.

A member that has other tasks than it would have as it was told asks the group, and does not wait to
hear of them (:mod:`logstate.worker.heartbeat_backoff`). So does a worker of an instance when
another one of that instance has come or gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
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
from logstate.worker.heartbeat_backoff import HeartbeatBackoff, SiblingWorkers
from logstate.worker.worker_control import WorkerControl

_LOGGER = logging.getLogger(__name__)

#: how long an idle worker waits for records of standbys, before it looks after its own
_IDLE_S = 0.01
#: so long after a change of the assignment tasks are started, which holds up the others enough
_MOVING_MS = 200.0
#: between two looks of a member that has not joined yet
_LOOK_S = 0.02


@dataclass(frozen=True)
class StandbyReport:
    """One standby, for whoever asks."""

    #: offsets that it lacks of what its changelogs had a second ago; None: it is not open yet
    lag: int | None


class StandbyTasks:
    """See the module. Before the start and after the end there are none."""

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
        #: of this worker, also before it has joined; empty where it is not known
        self.member_id = ""
        #: it is asked of a thread of the client's, which costs more than all else of a turn
        self._is_id_known = False
        self._is_joining = False
        #: by what the present choice was made
        self._chosen_by: tuple[tuple[Peer, ...], str, tuple[Peer, ...]] | None = None
        self._chosen: frozenset[TaskId] = frozenset()
        #: those of them that this member would have itself
        self._coming: frozenset[TaskId] = frozenset()
        #: whoever told of the group knew of this member
        self._is_known = False
        self._heartbeat_backoff = HeartbeatBackoff()
        self._company = SiblingWorkers()
        self.reports: Mapping[TaskId, StandbyReport] = {}
        self._readable: Mapping[TaskId, OwnedTask] = {}
        #: standbys that became tasks of this worker
        self.promoted_total = 0

    def begin(self, plan: BoundPlan, standbys: Standbys, member_id: Callable[[], str]) -> None:
        """The worker has started."""
        self._plan = plan
        self._standbys = standbys
        self._ask_member_id = member_id
        self.member_id = ""
        self._is_id_known = False
        tasks = {task_id: plan.input_partitions(task_id) for task_id in plan.task_ids()}
        self._inputs = Inputs(tasks, plan.partition_counts)
        self._chosen_by = None

    def rebalanced(self) -> None:
        """The group may know this member by another id now, and its tasks are others."""
        self._is_id_known = False
        if self._standbys is not None:
            self._standbys.rest(_MOVING_MS)

    def turn(self, owned: Mapping[TaskId, OwnedTask], *, is_busy: bool) -> Steps[None]:
        """Some of the work. ``owned``: the worker's own tasks; ``is_busy``: they have records."""
        if self._standbys is None or not self._is_used:
            return
        self._choose()
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
        """Before joining: follow what will be given to this member, until it has nearly all."""
        config = self._config
        if not config.standby_replicas or config.acceptable_lag is None:
            return
        since_ms = self._clock.monotonic_ms()
        self._is_joining = True
        while not is_stopping():
            self._choose()
            why = self._may_join(self._clock.monotonic_ms() - since_ms)
            if why:
                _LOGGER.info("joins the group: %s", why)
                self._is_joining = False
                return
            yield from self.turn({}, is_busy=False)
            if not self.has_more:
                yield Step("wait_for_peers", self._wait, (_LOOK_S,))

    def _may_join(self, waited_ms: float) -> str:
        """Why it is time; empty: it is not."""
        config = self._config
        if not self._own:
            return "it has no member id before it has joined (classic protocol)"
        if waited_ms >= config.warm_up_timeout_ms:
            return f"{len(self.reports)} tasks are not warm, but it has waited long enough"
        peers = self._peers()
        if self._own not in {peer.id for peer in peers}:
            is_long = waited_ms >= config.peers_timeout_ms
            return "it has not heard of the other members" if is_long else ""
        if len({peer.instance for peer in peers}) == 1:
            return "nobody else is there"
        elsewhere = [task_id for task_id in self._stateful() if self._is_elsewhere(task_id)]
        if not elsewhere:
            return "nobody else has any of its tasks with state"
        lags = [self.reports[t].lag if t in self.reports else None for t in elsewhere]
        limit = config.acceptable_lag or 0
        is_warm = all(lag is not None and lag <= limit for lag in lags)
        return f"its {len(lags)} tasks with state are warm" if is_warm else ""

    def _stateful(self) -> list[TaskId]:
        return [t for t in self._coming if self._plan is not None and self._plan.changelogs(t)]

    def _is_elsewhere(self, task_id: TaskId) -> bool:
        """Whether another instance has a task, as far as it is known."""
        holders, task = self._control.group_view.holders, str(task_id)
        if holders is None:
            return True
        return any(task in one.tasks and self._own not in one.members for one in holders)

    def _peers(self) -> tuple[Peer, ...]:
        """Of the group, as it is told. A static member knows of itself before others tell it."""
        told, own = self._control.group_view, self._config.instance_id
        is_known = own is None or own in {peer.id for peer in told.peers}
        if is_known or not self._is_joining or told.holders is None:
            return told.peers
        return (*told.peers, Peer(self.member_id, own, ""))

    @property
    def _is_used(self) -> bool:
        return bool(self._config.standby_replicas or self._control.group_view.peers)

    @property
    def _own(self) -> str:
        return self._config.instance_id or self.member_id

    @property
    def has_more(self) -> bool:
        """Records of standbys are waiting to be read."""
        return self._standbys is not None and self._standbys.has_more

    def ask(self, group: GroupConsumer, owned: Mapping[TaskId, OwnedTask]) -> Steps[None]:
        """Hear of what is coming before the next heartbeat."""
        now_ms = self._clock.monotonic_ms()
        if self._heartbeat_backoff.is_due(self._waits_for(owned, now_ms), now_ms):
            yield Step("ask_group", group.ask_group)

    def _waits_for(self, owned: Mapping[TaskId, OwnedTask], now_ms: float) -> Hashable:
        """Some task, or others than it has, by what it was told; None: nothing."""
        announced = self._company.announces(self._control.company, owned.keys(), now_ms)
        if not owned:
            return "tasks"
        if self._is_known and self._coming != owned.keys():
            told = self._control.group_view
            return told.peers, told.holders, frozenset(owned)
        return announced

    def hand_over(self, owned: OwnedTask) -> None:
        """A task is assigned here now: it goes on with what there is of it."""
        owned.task_or_none = self.take(owned.task_id)

    def take(self, task_id: TaskId) -> Task | None:
        """What there is of a task that is assigned here now."""
        task = None if self._standbys is None else self._standbys.take(task_id)
        self.reports = {followed: r for followed, r in self.reports.items() if followed != task_id}
        self._readable = {t: one for t, one in self._readable.items() if t != task_id}
        self.promoted_total += task is not None
        return task

    def keep(self, task_id: TaskId, task: Task) -> bool:
        """Whether a task that goes to another member stays here as a copy of what was committed."""
        standbys = self._standbys
        if standbys is None or not self._is_used:
            return False
        standbys.keep(task_id, task)
        return True

    def queried(self) -> Mapping[TaskId, OwnedTask]:
        """Those whose rows can be read; from any thread. They are kept newer for a while then."""
        standbys = self._standbys
        if standbys is not None:
            standbys.read_ms = self._clock.monotonic_ms()
        return self._readable

    @property
    def tasks(self) -> Mapping[TaskId, OwnedTask]:
        """Those that are followed now; in the worker's thread."""
        return {} if self._standbys is None else self._standbys.tasks

    def close(self) -> Steps[None]:
        """Let go of all."""
        standbys, self._standbys, self.reports = self._standbys, None, {}
        self._readable = {}
        if standbys is not None:
            yield from standbys.close()

    def _choose(self) -> None:
        if not self._is_id_known:
            self.member_id = self._ask_member_id()
            self._is_id_known = self.member_id != ""
        peers, own = self._peers(), self._own
        by = peers, own, self._group(peers)
        if by == self._chosen_by:
            return
        self._chosen_by = by
        self._is_known = own in {peer.id for peer in peers}
        if not self._is_known:
            return  # whoever told this does not know of us yet, or no more
        places = standby_assignment(self._inputs, peers, self._config.standby_replicas)
        kept = {t for t, found in places.items() if any(p.id == own for p in found)}
        owners = [*self._inputs.owners(peers).items(), *self._inputs.owners(by[2]).items()]
        self._coming = frozenset(task for task, peer in owners if peer.id == own)
        self._chosen = self._coming | kept

    def _group(self, peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
        """The members that this one finds where it joins before all others that are about to."""
        if not self._is_joining:
            return ()
        holders = self._control.group_view.holders or ()
        there = {self._own}.union(*(one.members for one in holders if one.tasks))
        return tuple(peer for peer in peers if peer.id in there)


def _lag(owned: OwnedTask) -> int:
    """Offsets between what a standby has and the ends that were heard of last."""
    task = owned.task_or_none
    if task is None:
        return sum(target.target for target in owned.targets)
    at = task.state.positions
    return sum(max(0, target.target - at.get(target.store, 0)) for target in owned.targets)
