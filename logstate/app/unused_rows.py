"""Remove the local rows of tasks that have moved away, after a delay.

A task that comes back soon uses its rows here, so they are kept for a while. Then they are removed:
they are out of date, and the changelogs have everything that a restore needs.

A thread checks the directories of all tasks. A directory that no worker of the machine has open
(:mod:`logstate.changelog.task_lock`) is unused. The time for which it was found unused is added up
over the checks, and a check counts for at most twice the interval of checks: a suspended process
does not know what happened meanwhile. While the instance is not a settled member of the group (it
is starting, or the brokers are unavailable) there are no checks: that it has no tasks then does not
show where they are.

Rows that exist nowhere else are never removed: those of tasks with a persistent store without a
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
#: a short delay is accurate to a quarter of it
_LOOKS_PER_DELAY = 4
#: how long stopping waits for the deletion of a directory; the next start deletes the rest
_STOP_S = 5.0


class UnusedFor:
    """How long each directory was found unused."""

    def __init__(self, longest_step_ms: float) -> None:
        self._longest_step_ms = longest_step_ms
        self._unused_ms: dict[TaskId, float] = {}
        self._looked_ms: float | None = None

    def check(self, now_ms: float, unused: Iterable[TaskId]) -> dict[TaskId, float]:
        """Return the directories that are unused now, and for how long they have been.

        >>> times = UnusedFor(longest_step_ms=10)
        >>> times.check(0, ["a"]), times.check(5, ["a", "b"]), times.check(900, ["b"])
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
    """Removes unused rows. ``here`` returns the tasks of this worker, None while unknown."""

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
        #: sub-topologies whose rows can be restored
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

    def check(self) -> list[TaskId]:
        """Check once; return the tasks whose rows were removed."""
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
        unused_ms = self._unused_for.check(self._clock.monotonic_ms(), unused)
        due = [task for task, found_ms in unused_ms.items() if found_ms >= self._delay_ms]
        removed = [task for task in due if self._remove(task)]
        if removed:
            _LOGGER.info(
                "the local rows of %d tasks were removed: %s. The tasks were not here for %g s"
                " (state_cleanup_delay); if they come back, the changelogs restore them",
                len(removed),
                ", ".join(map(str, removed)),
                self._delay_ms / 1_000,
            )
        return removed

    def _remove(self, task: TaskId) -> bool:
        try:
            return self._directory.remove_unused(task)
        except (StateDirectoryError, OSError) as exc:
            self._refused.add(task)
            _LOGGER.warning("task %s: its local rows cannot be removed: %s", task, text_of(exc))
            return False

    def start(self, name: str) -> None:
        """Start the thread that checks repeatedly and ends with the process."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._is_over.wait(self._look_every_s):
            try:
                self.check()
            except Exception:
                _LOGGER.exception("looking for unused local rows failed and will be retried")
