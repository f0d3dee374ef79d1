"""One measured run, whatever the workload: what is common to all of them."""

from __future__ import annotations

import shutil
import time
from typing import Any

from tests.performance.command import command, environment
from tests.performance.machine import MachineCpu, machine_cpu, process_cpu_s
from tests.performance.measured_process import MeasuredProcess
from tests.performance.settings import Run, Settings
from tests.performance.topics import Topics


class NotFinishedError(RuntimeError):
    """The run was given up."""


class Bench:
    """Starts programs for one run and removes what they leave behind."""

    def __init__(self, settings: Settings, topics: Topics, run: Run) -> None:
        self.settings = settings
        self.topics = topics
        self.run = run
        self.state = settings.work / "state" / run.name
        self.log = settings.work / f"{run.name}.log"
        self._machine = MachineCpu(0.0, 0.0)
        self._broker_s = 0.0

    def start(self) -> MeasuredProcess:
        """Start the program, and the clocks of everything around it."""
        words = command(self.settings, self.run, self.state)
        self.state.parent.mkdir(parents=True, exist_ok=True)
        self._machine = machine_cpu()
        self._broker_s = self._broker_cpu_s()
        return MeasuredProcess(words, self.log, environment(self.run))

    def application_context(self, own_cpu_s: float) -> dict[str, Any]:
        """What broker, host and other programs used since the start."""
        now = machine_cpu()
        broker_s = self._broker_cpu_s() - self._broker_s
        return {
            "stolen_cpu_s": now.stolen_s - self._machine.stolen_s,
            "other_cpu_s": max(0.0, now.busy_s - self._machine.busy_s - own_cpu_s - broker_s),
            "broker_cpu_s": broker_s if self.settings.broker_pid else None,
        }

    def lose_state(self) -> None:
        """Delete the program's directory: the disk is gone."""
        shutil.rmtree(self.state, ignore_errors=True)

    def clean(self, *, is_verified: bool) -> None:
        """Remove topics, state and, after a good run, the log."""
        if self.settings.keeps:
            return
        self.topics.delete(self.run.name, f"changelog__{self.run.name}")
        self.lose_state()
        if is_verified:
            self.log.unlink(missing_ok=True)

    def give_up(self, why: str) -> NotFinishedError:
        """The error of a run that took too long; its log stays."""
        return NotFinishedError(f"{self.run.name}: {why}; its log is {self.log}")

    def is_late(self, process: MeasuredProcess) -> bool:
        """Whether the limit has passed. Raises EndedEarlyError if the program is gone."""
        process.check_alive()
        return time.time() - process.started_s > self.settings.limit_s

    def _broker_cpu_s(self) -> float:
        pid = self.settings.broker_pid
        return process_cpu_s(pid) if pid else 0.0
