"""One window of a key by definition: its count and the panes it has to send."""

from __future__ import annotations

from typing import Literal

from logstate.contracts.pane import Pane
from logstate.topology.dsl.panes import Early


class ModelWindow:
    """Begins at a stream time, and counts one record at each update."""

    def __init__(self, end: int, now: int) -> None:
        self.end, self.is_past = end, now >= end
        self.count = self._updates = 0
        self._early_at: int | None = None
        self.panes: list[Pane[int]] = []

    def times(self) -> list[int]:
        """Return the stream times at which a pane is due."""
        ends = [] if self.is_past else [self.end]
        return ends if self._early_at is None else [self._early_at, *ends]

    def advance(self, now: int) -> None:
        """Send the panes that are due at a stream time."""
        if self._early_at is not None and self._early_at <= now:
            self._send("early")
        if self.end <= now and not self.is_past:
            self._send("on_time")
            self.is_past = True

    def update(self, now: int, trigger: Early | None) -> None:
        """Count a record, and send a pane if it makes one."""
        self.count, self._updates = self.count + 1, self._updates + 1
        if self.is_past:
            self._send("late")
        elif trigger is not None and trigger.records == self._updates:
            self._send("early")
        elif trigger is not None and trigger.every_ms is not None and self._updates == 1:
            due = now + trigger.every_ms
            self._early_at = due if due < self.end else None

    def _send(self, timing: Literal["early", "on_time", "late"]) -> None:
        old = self.panes[-1].value if self.panes else None
        self.panes.append(Pane(self.count, old, timing, len(self.panes)))
        self._updates, self._early_at = 0, None


def panes_of(windows: dict[str, ModelWindow]) -> dict[str, list[Pane[int]]]:
    """Return the panes of each window that has some."""
    return {name: window.panes for name, window in windows.items() if window.panes}
