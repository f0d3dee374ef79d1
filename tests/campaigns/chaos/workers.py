"""The worker processes and who starts them again."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

from tests.campaigns.chaos.disk import Disk
from tests.campaigns.toolkit.process import kill, last_line, start_module, terminate

#: what a worker says that can't commit its last records for want of space
_DISK_FULL = "the disk is full"


class Workers:
    """``count`` workers, each with its disk and its log file below ``path``."""

    def __init__(
        self,
        count: int,
        bootstrap: str,
        prefix: str,
        path: Path,
        protocol: str = "consumer",
        standbys: int = 0,
        *,
        module: str = "tests.campaigns.chaos.worker",
    ) -> None:
        self._module = module
        self._arguments = [bootstrap, prefix]
        self._options = ["--protocol", protocol, "--standbys", str(standbys)]
        self._path = path
        self.disks = [Disk(path / f"disk-{i}") for i in range(count)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.starts = 0
        #: last lines of workers that ended by themselves
        self.exits: Counter[str] = Counter()
        #: what must not happen, in words
        self.client_errors: list[str] = []

    def log_file(self, number: int) -> Path:
        """What a worker said, over all its lives."""
        return self._path / f"worker-{number}.log"

    def start(self, number: int) -> None:
        """Start a worker."""
        self.starts += 1
        log = self.log_file(number)
        with log.open("a") as file:
            file.write(f"--- start {self.starts}\n")
        self.processes[number] = start_module(
            self._module, *self._arguments, self.disks[number].path, *self._options, log=log
        )

    def revive(self) -> None:
        """Start what ended by itself again, as any supervisor would."""
        for number in range(len(self.disks)):
            process = self.processes.get(number)
            if process is not None and process.poll() is not None:
                self.exits[last_line(self.log_file(number))] += 1
                self.start(number)

    def pid(self, number: int) -> int | None:
        """Its process id; None where it is not running."""
        process = self.processes.get(number)
        return process.pid if process is not None and process.poll() is None else None

    def send(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a living worker."""
        process = self.processes.get(number)
        if process is not None and process.poll() is None:
            process.send_signal(what)

    def kill(self, number: int) -> None:
        """SIGKILL: no chance to clean up."""
        kill(self.processes.pop(number))

    def terminate(self, number: int) -> None:
        """SIGTERM: it must end by itself, in time, with status 0 or because its disk is full."""
        process = self.processes.pop(number)
        if process.poll() is not None:
            self.exits[last_line(self.log_file(number))] += 1
            return
        status = terminate(process)
        if status is None:
            self.client_errors.append(f"worker {number} did not end after SIGTERM")
            return
        if status not in (0, -signal.SIGTERM):
            words = last_line(self.log_file(number))
            if _DISK_FULL in words:
                self.exits[words] += 1
            else:
                self.client_errors.append(f"worker {number} ended with {status} after SIGTERM")

    def count_in_logs(self, words: str) -> int:
        """How often the workers said something."""
        return sum(
            self.log_file(n).read_text(errors="replace").count(words)
            for n in range(len(self.disks))
            if self.log_file(n).exists()
        )

    def close(self) -> None:
        """Kill what is left, unmount."""
        for process in self.processes.values():
            kill(process)
        self.processes.clear()
        for disk in self.disks:
            disk.close()
