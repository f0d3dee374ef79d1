"""The worker processes and who starts them again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.campaigns.chaos.disk import Disk
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
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
        with self.log_file(number).open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            log.flush()
            self.processes[number] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    self._module,
                    *self._arguments,
                    str(self.disks[number].path),
                    *self._options,
                ],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def revive(self) -> None:
        """Start what ended by itself again, as any supervisor would."""
        for number in range(len(self.disks)):
            process = self.processes.get(number)
            if process is not None and process.poll() is not None:
                self.exits[_last_words(self.log_file(number))] += 1
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
        process = self.processes.pop(number)
        process.kill()
        process.wait(PATIENCE_S)

    def terminate(self, number: int) -> None:
        """SIGTERM: it must end by itself, in time, with status 0 or because its disk is full."""
        process = self.processes.pop(number)
        if process.poll() is not None:
            self.exits[_last_words(self.log_file(number))] += 1
            return
        process.terminate()
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)  # its stacks go to the log
            process.kill()
            process.wait(PATIENCE_S)
            self.client_errors.append(f"worker {number} did not end after SIGTERM")
            return
        if status not in (0, -signal.SIGTERM):
            words = _last_words(self.log_file(number))
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
            process.kill()
            process.wait(PATIENCE_S)
        self.processes.clear()
        for disk in self.disks:
            disk.close()


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing"
