"""The states of an instance, as a table, and who is told when one follows another.

::

    CREATED --> STARTING --> REBALANCING <--> RUNNING <--> PAUSED
                   ^________________|____________|___________|      a worker is replaced
                   |________________|____________|___________|
                                            v
                                        STOPPING --> STOPPED
                     (from everywhere, without being asked) --> ERROR

What a worker is at follows from facts (:func:`state_of`), so a state can never contradict them; the
table says which of them may follow which. Nothing here looks at clocks or waits.
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
    """What an instance is at.

    >>> ApplicationState("running").is_over
    False
    """

    #: nothing was started
    CREATED = "created"
    #: topics are checked, global tables read, the group is being joined
    STARTING = "starting"
    #: waits for its partitions, or restores and starts some of its tasks; others may run
    REBALANCING = "rebalancing"
    #: every task that it was given runs; it may have none, as a spare
    RUNNING = "running"
    #: it keeps its tasks, and processes nothing
    PAUSED = "paused"
    #: commits what is done, and leaves the group
    STOPPING = "stopping"
    #: it was stopped
    STOPPED = "stopped"
    #: it failed
    ERROR = "error"

    @property
    def is_over(self) -> bool:
        """Nothing runs any more, or ever will."""
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
    """An instance was moved to a state it cannot reach: a bug in the library."""


@dataclass(frozen=True)
class Facts:
    """What is known of the worker, or of all workers together."""

    #: the group was joined
    is_started: bool = False
    #: the group has said which tasks are here, and all of them run
    is_settled: bool = False
    #: nothing is processed, because that was asked for
    is_paused: bool = False
    is_stopping: bool = False


def state_of(facts: Facts) -> ApplicationState:
    """The state of an instance of which these facts are true.

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
    """What is true of several workers together: it has happened once it has for all of them."""
    found = list(facts)
    return Facts(
        is_started=bool(found) and all(one.is_started for one in found),
        is_settled=bool(found) and all(one.is_settled for one in found),
        is_paused=bool(found) and all(one.is_paused for one in found),
        is_stopping=any(one.is_stopping for one in found),
    )


StateListener: TypeAlias = "Callable[[ApplicationState, ApplicationState], object]"


class Lifecycle:
    """The state of an instance, from the first to the last, and those who are told.

    Listeners are told of every change, one change after the other, in the thread that made it: the
    worker's, but for the first and for an end before any start. A change that comes while another
    is told is told after it, by whoever is at it. What a listener raises is logged.
    """

    def __init__(self) -> None:
        self.state = _S.CREATED
        self._listeners: list[StateListener] = []
        self._untold: deque[tuple[ApplicationState, ApplicationState]] = deque()
        self._is_telling = False
        self._lock = threading.Lock()

    def listen(self, listener: StateListener) -> None:
        """Tell this one too, of what comes from now on."""
        self._listeners = [*self._listeners, listener]

    def follow(self, facts: Facts) -> None:
        """Be what the facts say."""
        self.move_to(state_of(facts))

    def move_to(self, state: ApplicationState) -> None:
        """Change the state, and tell of it. Raises IllegalChange where the table has no such way.

        To stay is no change.
        """
        with self._lock:
            before = self.state
            if state is before:
                return
            if state not in SUCCESSORS[before]:
                raise IllegalChange(f"an instance that is {before.value} cannot be {state.value}")
            self.state = state
            self._untold.append((before, state))
            if self._is_telling:
                return
            self._is_telling = True
        self._tell()

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._untold:
                    self._is_telling = False
                    return
                old, new = self._untold.popleft()
            for listener in self._listeners:
                try:
                    listener(old, new)
                except Exception:
                    _LOGGER.exception(
                        "a state listener failed; it was told of %s -> %s", old.value, new.value
                    )
