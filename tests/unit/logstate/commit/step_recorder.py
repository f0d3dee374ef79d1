"""Drives a machine and remembers the names of its steps; may act before one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.clients import Step, Steps


class StepRecorder:
    """``before[name]`` is called, once, before the next step of that name; it may raise."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arguments: dict[str, list[tuple[Any, ...]]] = {}
        self.before: dict[str, Callable[[], object]] = {}

    def run(self, machine: Steps[Any]) -> Any:
        """To the end; returns its result."""
        return self._drive(machine, None)

    def run_to(self, machine: Steps[Any], name: str) -> None:
        """Up to a step, which is not made any more."""
        self._drive(machine, name)

    def take(self) -> list[str]:
        """The names since the last call."""
        names, self.names = self.names, []
        return names

    def _drive(self, machine: Steps[Any], end: str | None) -> Any:
        try:
            step = next(machine)
            while step.name != end:
                try:
                    result = self._make(step)
                except Exception as exc:  # noqa: BLE001  the machine decides what it means
                    step = machine.throw(exc)
                else:
                    step = machine.send(result)
        except StopIteration as stop:
            return stop.value
        return None

    def _make(self, step: Step) -> Any:
        self.names.append(step.name)
        self.arguments.setdefault(step.name, []).append(step.arguments)
        self.before.pop(step.name, lambda: None)()
        return step.call(*step.arguments)
