"""The part of a worker's turn that processes records: which tasks, how many records, how long.

Each running task has a share: a number of records, and the rest of the turn's time. Outputs are
sent after each task; only a commit that must be separate happens here.

Other threads observe the position (:meth:`Processing.place`): the fields that they read are
assigned once per task and turn; the task stores its current record anyway.
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
from logstate.worker.slow_calls import ProcessedRecord, SlowCalls
from logstate.worker.worker_observer import WorkerObserver

#: records of a task between two checks of the turn's time, if they are fast
_PROCESS_RECORDS = 2_000
#: a task that has processed this many in a turn does not keep up
_BACKLOG_RECORDS = 500


class Processing:
    """Processes records of all running tasks in turn."""

    def __init__(
        self,
        tasks: TaskTable,
        poison_search: PoisonRecordSearch,
        slow_calls: SlowCalls,
        observer: WorkerObserver,
        clock: Clock,
    ) -> None:
        self.slow_calls = slow_calls
        #: the last turn processed something
        self.had_work = False
        #: it processed all available records, and they were few, within its time
        self.keeps_up = True
        #: id of the processing thread; 0 before the first turn
        self.thread_id = 0
        self._tasks = tasks
        self._poison_search = poison_search
        self._observer = observer
        self._clock = clock
        self._time = WorkTime(clock)
        self._turn = 0
        self._current: OwnedTask | None = None
        #: outputs that are buffered until no function runs
        self._kept: list[ProducedFields] | None = None

    def turn(self, commits: Commits) -> Steps[None]:
        """Process the tasks' records until the time is up."""
        self.had_work, self.keeps_up, self.thread_id = False, True, threading.get_ident()
        self._turn += 1
        began_ms = self._clock.monotonic_ms()
        self._kept = [] if self.slow_calls.was_slow_recently(began_ms) else None
        self._time.begin()
        for owned in self._time.in_turn(self._tasks.running()):
            if owned.is_held:  # after the barrier of a snapshot
                continue
            yield from self._process_share(owned, commits)
            if self._time.is_up():
                self._time.ended_with(owned)
                self.keeps_up = False
                break
        if self.had_work:
            self._observer.processed(self._clock.monotonic_ms() - began_ms)
        else:  # with work, commits update how current new tasks are
            self._tasks.note_current()
        if self._kept:
            yield from commits.live.committer.output_buffer.send(self._kept)

    def rest(self) -> None:
        """Run a turn without records and punctuation."""
        self.had_work, self.keeps_up = False, True
        self._tasks.note_current()

    def close(self) -> None:
        """Release the clock's alarm."""
        self._time.close()

    def place(self) -> ProcessedRecord | None:
        """Return the current position, for another thread; None if nothing is being processed."""
        turn, owned = self._turn, self._current
        task = None if owned is None else owned.task_or_none
        if owned is None or task is None:
            return None
        return ProcessedRecord(turn, str(owned.task_id), task.topic, task.partition, task.offset)

    def turn_now(self) -> int:
        """Return the turn in which records are being processed; -1 if there is none."""
        turn = self._turn
        return -1 if self._current is None else turn

    def _process_share(self, owned: OwnedTask, commits: Commits) -> Steps[None]:
        """Process one task's share of this turn."""
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
            # At once: sending the results may fail because of the time it took.
            self.slow_calls.note_duration(self._turn, began_ms, self._clock.monotonic_ms())
        self.keeps_up &= processed < _BACKLOG_RECORDS
        if processed or fired:
            self.had_work = True

    def _part(self, owned: OwnedTask, commits: Commits) -> Steps[None]:
        """Process a part of records that include one refused by the brokers, and commit it."""
        yield from commits.commit_all()
        began_ms = self._clock.monotonic_ms()
        self._current = owned
        try:
            with self._time.of(owned.task):
                has_part = self._poison_search.process_part(owned)
        finally:
            self._current = None
            self.slow_calls.note_duration(self._turn, began_ms, self._clock.monotonic_ms())
        if has_part:
            self.had_work = True
            yield from commits.commit_all()
            self._poison_search.part_committed()
