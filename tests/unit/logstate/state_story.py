"""What a state listener was told."""

from __future__ import annotations

import threading

from logstate.app.instance.states import ApplicationState
from tests.patience import PATIENCE_S

S = ApplicationState


class Story:
    """What listeners were told, with a wait for a state."""

    def __init__(self) -> None:
        self.told: list[tuple[S, S]] = []
        self.threads: set[str] = set()
        self._changed = threading.Condition()

    def __call__(self, old: S, new: S) -> None:
        with self._changed:
            self.told.append((old, new))
            self.threads.add(threading.current_thread().name)
            self._changed.notify_all()

    def until(self, state: S) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.states[-1:] == [state], PATIENCE_S), (
                self.told
            )

    @property
    def states(self) -> list[S]:
        return [new for _, new in self.told]
