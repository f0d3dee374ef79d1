"""Report tasks that wait for an open transaction, and fence the dead worker that left it open.

A worker that dies leaves its transaction open. Until the broker times it out, the offsets of its
partitions are not stable and its changelogs cannot be read to the end, so the next owner waits: ten
seconds with the defaults. The committed cut names its writer (``Writer``), and initializing a
producer with that transactional id ends the transaction at once.

Fencing is always safe: an owner that is alive is fenced and replays. It is also rare: a live worker
ends its transaction before it releases partitions, and the group waits for that until the session
timeout. Slow or unavailable brokers look the same as a dead worker, so a writer is fenced only
after the brokers have answered twice while the restore made no progress.

If instances know each other (``GroupView``), there is no wait: the previous owner of a task that
ended without a final message is fenced as soon as the task is assigned here. This is necessary even
if the state is already here, because consumers with read_committed see the outputs only up to the
oldest open transaction. If the worker died during a commit, the offsets of its tasks are not stable
and do not name it, so the last stable writers are requested at once. Present members are never
fenced: if the new owner of a task dies before its first commit, the cut still names the previous
owner, which is alive and would have to replay repeatedly for no benefit. Silent members are fenced
instead.

Invariant: correct results do not depend on this module, only the speed of recovery does. Each
failure is logged and left to the broker's transaction timeout.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from logstate.changelog.cut import Writer, decode_cut
from logstate.contracts.clients import Admin, Cluster, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, RestoreError
from logstate.contracts.records import TaskId
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.standby_assignor import EMPTY_GROUP, GroupView
from logstate.task.owned_task import OwnedTask, Stage

_LOGGER = logging.getLogger(__name__)

#: a restore without progress for this long may be waiting for a transaction
_PATIENCE_MS = 2_000
#: the same if a member is known to have ended without a final message
_SHORT_PATIENCE_MS = 200
#: intervals of further checks and of log messages
_LOOK_INTERVAL_MS = 1_000
_TELL_INTERVAL_MS = 10_000
#: longer than any transaction lives by default: the broker may have lost track of it
_HANGING_MS = 60_000


@dataclass
class _Wait:
    """Last progress of a task, and since when it has made no more."""

    progress: tuple[Stage, int]
    since_ms: float
    look_at_ms: float
    tell_at_ms: float
    #: number of times the brokers have answered since then
    looks: int = 0


class OpenTransactions:
    """Tracks the waiting tasks of one worker."""

    def __init__(self, config: WorkerConfig, cluster: Cluster, admin: Admin, clock: Clock) -> None:
        self._config = config
        self._cluster = cluster
        self._admin = admin
        self._clock = clock
        self._waits: dict[TaskId, _Wait] = {}
        #: fenced writers; their transactions need no second attempt
        self._fenced: set[Writer] = set()
        #: the group view of the previous call
        self._group_view = EMPTY_GROUP

    def check(
        self, tasks: Mapping[TaskId, OwnedTask], group_view: GroupView = EMPTY_GROUP
    ) -> Steps[None]:
        """Check tasks that are not running yet; costs nothing while they make progress."""
        if group_view is not self._group_view:
            self._receive_group_view(group_view)
        if group_view.silent:
            yield from self._end_those_of(group_view.silent, tasks.values())
        waiting = [o for o in tasks.values() if o.stage in (Stage.ASSIGNED, Stage.RESTORING)]
        if not waiting:
            self._waits.clear()
            return
        now = self._clock.monotonic_ms()
        self._note_waiting(waiting, now)
        due = [owned for owned in waiting if self._waits[owned.task_id].look_at_ms <= now]
        if not due:
            return
        for owned in due:
            self._waits[owned.task_id].look_at_ms = now + _LOOK_INTERVAL_MS
        try:
            writers = yield from self._writers(due)
        except (BrokerError, RestoreError) as exc:
            _LOGGER.debug("could not determine what restores are waiting for: %s", text_of(exc))
            for owned in due:
                self._waits[owned.task_id].looks = 0
            return
        for owned in due:
            self._waits[owned.task_id].looks += 1
            self._log_waiting_task(owned, writers[owned.task_id], now)
        for writer in sorted(self._silent_writers(writers) - self._fenced):
            yield from self._fence(writer, "restores wait for a transaction that it left open")

    def _receive_group_view(self, group_view: GroupView) -> None:
        if group_view.silent - self._group_view.silent:  # a task may be waiting for a dead member
            now = self._clock.monotonic_ms()
            for wait in self._waits.values():
                wait.look_at_ms = min(wait.look_at_ms, now)
        # A member that has come back may die once more.
        self._fenced = {w for w in self._fenced if w.transactional_id not in group_view.present}
        self._group_view = group_view

    def _silent_writers(self, writers: Mapping[TaskId, set[Writer]]) -> set[Writer]:
        """Return writers that may have left a transaction open: last cut writers and silent
        members.
        """
        group_view = self._group_view
        stuck = [task for task in writers if self._waits[task].looks > 1]
        if not stuck:
            last = chain.from_iterable(writers.values())
            return {writer for writer in last if writer.transactional_id in group_view.silent}
        waited_for = set(chain.from_iterable(writers[task] for task in stuck))
        dead = {w for w in waited_for if w.transactional_id not in group_view.present}
        named = {writer.transactional_id for writer in dead | self._fenced}
        named.add(self._config.transactional_id)
        return dead | {Writer(name, "") for name in group_view.silent - named}

    def _end_those_of(self, silent: Collection[str], tasks: Iterable[OwnedTask]) -> Steps[None]:
        cuts = (entry.cut for owned in tasks for entry in owned.metadata.values())
        writers = {cut.writer for cut in cuts if cut is not None and cut.writer is not None}
        own_id = self._config.transactional_id
        dead = {w for w in writers if w.transactional_id in silent and w.transactional_id != own_id}
        for writer in sorted(dead - self._fenced):
            yield from self._fence(writer, "it stopped without leaving, and its tasks are here")
            self._fenced.add(writer)  # if fencing fails, the transaction times out

    def _note_waiting(self, waiting: Sequence[OwnedTask], now: float) -> None:
        known, self._waits = self._waits, {}
        for owned in waiting:
            progress = (owned.stage, _position(owned))
            wait = known.get(owned.task_id)
            if wait is None or wait.progress != progress:
                patience_ms = _SHORT_PATIENCE_MS if self._group_view.silent else _PATIENCE_MS
                wait = _Wait(progress, now, now + patience_ms, now + _TELL_INTERVAL_MS)
            self._waits[owned.task_id] = wait

    def _writers(self, tasks: Sequence[OwnedTask]) -> Steps[Mapping[TaskId, set[Writer]]]:
        """Return for each task which other workers last committed its partitions."""
        partitions = [tp for owned in tasks for tp in owned.partitions]
        group = self._config.application_id
        found = yield Step("committed_so_far", self._admin.committed_so_far, (group, partitions))
        writers = {}
        for owned in tasks:
            committed = [found[tp] for tp in owned.partitions if found[tp].offset is not None]
            cuts = [decode_cut(one.metadata, committed_offset=one.offset).cut for one in committed]
            known = {cut.writer for cut in cuts if cut is not None and cut.writer is not None}
            own_id = self._config.transactional_id
            writers[owned.task_id] = {w for w in known if w.transactional_id != own_id}
        return writers

    def _log_waiting_task(self, owned: OwnedTask, writers: Iterable[Writer], now: float) -> None:
        wait = self._waits[owned.task_id]
        if now < wait.tell_at_ms:
            return
        wait.tell_at_ms = now + _TELL_INTERVAL_MS
        who = [f"{w.transactional_id!r} (member {w.member_id!r})" for w in sorted(writers)]
        waited_ms = now - wait.since_ms
        _LOGGER.warning(
            "task %s has waited %.0f s for an open transaction: %s. Its partitions were last"
            " committed by %s.%s",
            owned.task_id,
            waited_ms / 1000,
            _wait_so_far(owned),
            ", ".join(who) or "this worker, or by a program that left no name",
            _HINT if waited_ms > _HANGING_MS else "",
        )

    def _fence(self, writer: Writer, why: str) -> Steps[None]:
        """End the transaction that a dead worker left open."""
        name = writer.transactional_id
        _LOGGER.info("%s is fenced: %s", name, why)
        try:
            producer = yield Step("fence", self._cluster.transactional_producer, (name,))
            try:
                yield Step("init_transactions", producer.init_transactions)
            finally:
                yield Step("close_producer", producer.close)
        except BrokerError as exc:
            _LOGGER.warning(
                "could not fence %s; its transaction will time out: %s", name, text_of(exc)
            )
        else:
            self._fenced.add(writer)


#: hint for a transaction that the broker has lost track of (KIP-664, KAFKA-20734)
_HINT = (
    " A transaction should not last this long: the broker may have lost track of it. Check with"
    " `kafka-transactions.sh find-hanging`. Stop the instance that owns its producer first, and end"
    " the transaction with `kafka-transactions.sh abort` only if the application's committed"
    " offsets do not cover its records; if they do, the transaction was committed, and the next"
    " commit of that instance ends it"
)


def _position(owned: OwnedTask) -> int:
    if owned.task_or_none is None or owned.stage is not Stage.RESTORING:
        return -1
    return sum(owned.task_or_none.state.positions.get(t.store, 0) for t in owned.targets)


def _wait_so_far(owned: OwnedTask) -> str:
    if owned.stage is Stage.ASSIGNED:
        return f"the committed offsets of {[str(tp) for tp in owned.partitions]} are not stable"
    state = owned.task.state
    return ", ".join(
        f"{t.changelog} can be read to {state.positions.get(t.store, 0)} of {t.target}"
        for t in owned.targets
        if not t.is_done
    )
