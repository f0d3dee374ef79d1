"""The part of a worker's turn in which records are processed: whose, how many, and how long.

Every running task has its share: a number of records, and the rest of the turn's time. Outputs are
sent after each task; nothing is committed here but what has to be alone in its transaction.

Where it stands is looked at from beside (:meth:`Processing.place`): what another thread may read is
assigned once per task and turn; the record at hand the task keeps anyway.
"""

from __future__ import annotations

import threading

from logstate.contracts.clients import Steps
from logstate.contracts.clock import Clock
from logstate.contracts.records import ProducedFields
from logstate.task.owned_task import OwnedTask
from logstate.task.task_table import TaskTable
from logstate.task.work_time import WorkTime
from logstate.worker.commits import Commits
from logstate.worker.poison_record import PoisonRecordSearch
from logstate.worker.slow_calls import Place, SlowCalls
from logstate.worker.worker_observer import WorkerObserver

#: of a task between two looks at the brokers, if they are quick
_PROCESS_RECORDS = 2_000
#: a task that has processed so many of them does not keep up
_BACKLOG_RECORDS = 500


class Processing:
    """See the module."""

    def __init__(
        self,
        tasks: TaskTable,
        poison_search: PoisonRecordSearch,
        slow_calls: SlowCalls,
        observer: WorkerObserver,
        clock: Clock,
    ) -> None:
        self.slow_calls = slow_calls
        #: the last turn did something
        self.had_work = False
        #: it processed all there was, and that was little, in its time
        self.keeps_up = True
        #: whose thread it is; 0 before the first turn
        self.thread_id = 0
        self._tasks = tasks
        self._poison_search = poison_search
        self._observer = observer
        self._clock = clock
        self._time = WorkTime(clock)
        self._turn = 0
        self._current: OwnedTask | None = None
        #: outputs that wait until no function runs
        self._kept: list[ProducedFields] | None = None

    def turn(self, commits: Commits) -> Steps[None]:
        """Process what may be processed, until the time is up."""
        self.had_work, self.keeps_up, self.thread_id = False, True, threading.get_ident()
        self._turn += 1
        began_ms = self._clock.monotonic_ms()
        self._kept = [] if self.slow_calls.is_careful(began_ms) else None
        self._time.begin()
        for owned in self._time.in_turn(self._tasks.running()):
            if owned.is_held:  # behind the cut of a snapshot
                continue
            yield from self._share(owned, commits)
            if self._time.is_up():
                self._time.ended_with(owned)
                self.keeps_up = False
                break
        if self.had_work:
            self._observer.processed(self._clock.monotonic_ms() - began_ms)
        else:  # where there is work, commits say how new tasks are
            self._tasks.note_current()
        if self._kept:
            yield from commits.live.committer.output_buffer.send(self._kept)

    def rest(self) -> None:
        """A turn without processing: no record, and no punctuation."""
        self.had_work, self.keeps_up = False, True
        self._tasks.note_current()

    def close(self) -> None:
        """Release the clock's alarm."""
        self._time.close()

    def place(self) -> Place | None:
        """What is being processed now, for another thread; None where nothing is."""
        turn, owned = self._turn, self._current
        task = None if owned is None else owned.task_or_none
        if owned is None or task is None:
            return None
        return Place(turn, str(owned.task_id), task.topic, task.partition, task.offset)

    def turn_now(self) -> int:
        """The turn in which records are being processed; -1 where none are."""
        turn = self._turn
        return -1 if self._current is None else turn

    def _share(self, owned: OwnedTask, commits: Commits) -> Steps[None]:
        """What one task does in this turn."""
        if self._poison_search.is_searching(owned):
            yield from self._part(owned, commits)
            return
        self._process(owned)
        task = owned.task
        if task.outputs:
            outputs = task.outputs.copy()
            task.outputs.clear()
            self._observer.produced(owned, outputs)
            if self._kept is None:
                yield from commits.live.committer.output_buffer.send(outputs)
            else:
                self._kept += outputs  # no transaction is open while a function runs

    def _process(self, owned: OwnedTask) -> None:
        task, began_ms = owned.task, self._clock.monotonic_ms()
        self._current = owned
        try:
            with self._time.of(task):
                processed = task.process(_PROCESS_RECORDS)
            fired = task.punctuate("wall_clock")
        finally:
            self._current = None
            # At once: sending what came of it may be what fails because of it.
            self.slow_calls.took(self._turn, began_ms, self._clock.monotonic_ms())
        self.keeps_up &= processed < _BACKLOG_RECORDS
        if processed or fired:
            self.had_work = True

    def _part(self, owned: OwnedTask, commits: Commits) -> Steps[None]:
        """One of these records is refused by the brokers: which, is found by commits of parts."""
        yield from commits.commit_all()
        began_ms = self._clock.monotonic_ms()
        self._current = owned
        try:
            with self._time.of(owned.task):
                has_part = self._poison_search.process_part(owned)
        finally:
            self._current = None
            self.slow_calls.took(self._turn, began_ms, self._clock.monotonic_ms())
        if has_part:
            self.had_work = True
            yield from commits.commit_all()
            self._poison_search.part_committed()
