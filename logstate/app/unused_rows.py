"""Local rows of tasks that have moved away: removed after a delay.

A task that comes back soon uses the rows that it has here, so they are kept for a while. Then they
are removed: they are out of date, and the changelogs have everything that a restore needs.

How it works. A thread looks at the directories of all tasks. One that no worker of the machine has
open (:mod:`logstate.changelog.task_lock`) is unused. The time in which it was found unused is added
up over the looks, and a look counts for no longer than twice the time between two looks: a process
that was suspended has not seen what happened meanwhile. While the instance is not a settled member
of the group (it starts, or the brokers are away) nothing is looked at: that it has no tasks then
says nothing about where they are.

Kept for good are rows that exist nowhere else: of tasks with a persistent store that has no
changelog, and of tasks that the topology does not have (an earlier version may return).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from logstate.changelog.directory import StateDirectory
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import StateDirectoryError
from logstate.contracts.records import TaskId
from logstate.topology.plan.plan import Topology

_LOGGER = logging.getLogger(__name__)

_LOOK_EVERY_MS = 30_000
_LEAST_LOOK_EVERY_MS = 5
#: a short delay is kept as exactly as a quarter of it
_LOOKS_PER_DELAY = 4
#: how long the end waits for a directory that is being deleted; the next start deletes the rest
_STOP_S = 5.0


class UnusedFor:
    """How long each directory was found unused."""

    def __init__(self, longest_step_ms: float) -> None:
        self._longest_step_ms = longest_step_ms
        self._unused_ms: dict[TaskId, float] = {}
        self._looked_ms: float | None = None

    def look(self, now_ms: float, unused: Iterable[TaskId]) -> dict[TaskId, float]:
        """The directories that are unused now -> for how long they are.

        >>> times = UnusedFor(longest_step_ms=10)
        >>> times.look(0, ["a"]), times.look(5, ["a", "b"]), times.look(900, ["b"])
        ({'a': 0.0}, {'a': 5.0, 'b': 0.0}, {'b': 10.0})
        """
        since_ms = 0.0 if self._looked_ms is None else now_ms - self._looked_ms
        step_ms = min(since_ms, self._longest_step_ms)
        self._looked_ms = now_ms
        before = self._unused_ms
        self._unused_ms = {
            task: before[task] + step_ms if task in before else 0.0 for task in unused
        }
        return dict(self._unused_ms)


class UnusedRows:
    """Removes them; see the module. ``here`` are the tasks of this worker, None while unknown."""

    def __init__(
        self,
        directory: StateDirectory,
        topology: Topology,
        clock: Clock,
        delay_ms: int,
        here: Callable[[], Collection[TaskId] | None],
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._delay_ms = delay_ms
        self._here = here
        #: sub-topologies whose rows a restore brings back
        self._restorable = frozenset(
            sub.id
            for sub in topology.sub_topologies
            if all(spec.is_logged or spec.in_memory for spec in sub.stores)
        )
        look_every_ms = max(_LEAST_LOOK_EVERY_MS, min(_LOOK_EVERY_MS, delay_ms // _LOOKS_PER_DELAY))
        self._look_every_s = look_every_ms / 1_000
        self._unused_for = UnusedFor(2 * look_every_ms)
        self._refused: set[TaskId] = set()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> list[TaskId]:
        """One look; the tasks whose rows it removed."""
        here = self._here()
        if here is None:
            return []
        unused = [
            task
            for task in self._directory.tasks()
            if task.sub_topology in self._restorable
            and task not in here
            and task not in self._refused
            and not self._directory.is_task_used(task)
        ]
        unused_ms = self._unused_for.look(self._clock.monotonic_ms(), unused)
        due = [task for task, found_ms in unused_ms.items() if found_ms >= self._delay_ms]
        return [task for task in due if self._remove(task)]

    def _remove(self, task: TaskId) -> bool:
        try:
            is_removed = self._directory.remove_unused(task)
        except (StateDirectoryError, OSError) as exc:
            self._refused.add(task)
            _LOGGER.warning("task %s: its local rows cannot be removed: %s", task, text_of(exc))
            return False
        if is_removed:
            _LOGGER.info(
                "task %s: its local rows are removed: the task was not here for %g s"
                " (state_cleanup_delay). If it comes back, the changelogs restore them",
                task,
                self._delay_ms / 1_000,
            )
        return is_removed

    def start(self, name: str) -> None:
        """Look again and again, on a thread that ends with the process."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._is_over.wait(self._look_every_s):
            try:
                self.look()
            except Exception:
                _LOGGER.exception("looking for unused local rows failed; it is tried again")
