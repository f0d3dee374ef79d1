"""The states of an instance as a table, and the notification of listeners.

::

    CREATED --> STARTING --> REBALANCING <--> RUNNING <--> PAUSED
                   ^________________|____________|___________|      a worker is replaced
                   |________________|____________|___________|
                                            v
                                        STOPPING --> STOPPED
                     (from everywhere, without being asked) --> ERROR

The state of a worker follows from facts (:func:`state_of`), so it can never contradict them; the
table defines which state may follow which. Nothing here reads clocks or waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from logstate.contracts.errors import LogstateError

_LOGGER = logging.getLogger(__name__)


class ApplicationState(Enum):
    """The state of an instance.

    >>> ApplicationState("running").is_over
    False
    """

    #: not started yet
    CREATED = "created"
    #: topics are checked, global tables are read, the worker joins the group
    STARTING = "starting"
    #: waits for partitions, or restores and starts some of its tasks; others may run
    REBALANCING = "rebalancing"
    #: all assigned tasks run; a spare instance has none
    RUNNING = "running"
    #: keeps its tasks, but processes nothing
    PAUSED = "paused"
    #: commits processed records, and leaves the group
    STOPPING = "stopping"
    #: it was stopped
    STOPPED = "stopped"
    #: it failed
    ERROR = "error"

    @property
    def is_over(self) -> bool:
        """True if nothing runs anymore or ever will."""
        return self in _OVER


_S = ApplicationState
_OVER = frozenset({_S.STOPPED, _S.ERROR})
_ENDS = frozenset({_S.STOPPING, _S.STOPPED, _S.ERROR})
SUCCESSORS: dict[ApplicationState, frozenset[ApplicationState]] = {
    _S.CREATED: frozenset({_S.STARTING, _S.STOPPED}),
    _S.STARTING: frozenset({_S.REBALANCING, _S.RUNNING, _S.PAUSED, *_ENDS}),
    _S.REBALANCING: frozenset({_S.STARTING, _S.RUNNING, _S.PAUSED, *_ENDS}),
    _S.RUNNING: frozenset({_S.STARTING, _S.REBALANCING, _S.PAUSED, *_ENDS}),
    _S.PAUSED: frozenset({_S.STARTING, _S.REBALANCING, _S.RUNNING, *_ENDS}),
    _S.STOPPING: _OVER,
    _S.STOPPED: frozenset(),
    _S.ERROR: frozenset(),
}


class IllegalChange(LogstateError):
    """An instance was moved to a state that it cannot reach: a bug in the library."""


@dataclass(frozen=True)
class Facts:
    """Facts about one worker, or about all workers together."""

    #: has joined the group
    is_started: bool = False
    #: the assignment is known, and all its tasks run
    is_settled: bool = False
    #: processing is paused on request
    is_paused: bool = False
    is_stopping: bool = False


def state_of(facts: Facts) -> ApplicationState:
    """Return the state of an instance with these facts.

    >>> state_of(Facts(is_started=True, is_settled=True)).value
    'running'
    """
    if facts.is_stopping:
        return _S.STOPPING
    if not facts.is_started:
        return _S.STARTING
    if not facts.is_settled:
        return _S.REBALANCING
    return _S.PAUSED if facts.is_paused else _S.RUNNING


def joint(facts: Iterable[Facts]) -> Facts:
    """Combine the facts of several workers: a step is done once all workers have done it."""
    found = list(facts)
    return Facts(
        is_started=bool(found) and all(one.is_started for one in found),
        is_settled=bool(found) and all(one.is_settled for one in found),
        is_paused=bool(found) and all(one.is_paused for one in found),
        is_stopping=any(one.is_stopping for one in found),
    )


StateListener: TypeAlias = "Callable[[ApplicationState, ApplicationState], object]"


class Lifecycle:
    """The state of an instance from start to end, and its listeners.

    Listeners are called for each change, one change after the other, in the thread that made it:
    the worker thread, except for the first change and for an end before any start. If a change is
    made while listeners are being called, the calling thread also notifies them of that change.
    Exceptions of listeners are logged.
    """

    def __init__(self) -> None:
        self.state = _S.CREATED
        self._listeners: list[StateListener] = []
        self._pending: deque[tuple[ApplicationState, ApplicationState]] = deque()
        self._is_notifying = False
        self._lock = threading.Lock()

    def listen(self, listener: StateListener) -> None:
        """Add a listener for all further changes."""
        self._listeners = [*self._listeners, listener]

    def follow(self, facts: Facts) -> None:
        """Change to the state that follows from the facts."""
        self.move_to(state_of(facts))

    def move_to(self, state: ApplicationState) -> None:
        """Change the state and notify listeners. Raises IllegalChange if the table forbids it.

        Moving to the current state is not a change.
        """
        with self._lock:
            before = self.state
            if state is before:
                return
            if state not in SUCCESSORS[before]:
                raise IllegalChange(f"an instance that is {before.value} cannot be {state.value}")
            self.state = state
            self._pending.append((before, state))
            if self._is_notifying:
                return
            self._is_notifying = True
        self._notify()

    def _notify(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._is_notifying = False
                    return
                old, new = self._pending.popleft()
            for listener in self._listeners:
                try:
                    listener(old, new)
                except Exception:
                    _LOGGER.exception(
                        "a state listener failed; it received %s -> %s", old.value, new.value
                    )
