"""One program under measurement: its process tree, its time marks, its log.

A program prints lines such as ``FIRST 1699999999999`` (a word, milliseconds since the epoch). What
else it prints goes to its log, which is removed after a good run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.performance.machine import thread_cpu_max_s, tree_cpu_s, tree_rss_max_mb, tree_rss_mb

ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 30.0


class EndedEarlyError(RuntimeError):
    """The program ended while it was being measured."""


class MeasuredProcess:
    """A running program."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._log_file = log.open("ab")
        self._marks: list[tuple[str, float]] = []
        #: CPU time until the first record
        self.cpu_at_first_s = 0.0
        self.started_s = time.time()
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            cwd=ROOT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if len(words) == 2 and words[0].replace("_", "").isupper() and words[1].isdigit():
                if words[0] == "FIRST" and self.first("FIRST") is None:
                    self.cpu_at_first_s = self.cpu_s()
                self._marks.append((words[0], int(words[1]) / 1000))
            else:
                self._log_file.write(line.encode())
                self._log_file.flush()

    def first(self, name: str) -> float | None:
        """When a mark was set first, in seconds since the epoch."""
        return next((at_s for mark, at_s in self._marks if mark == name), None)

    def last(self, name: str) -> float | None:
        """When a mark was set last."""
        return next((at_s for mark, at_s in reversed(self._marks) if mark == name), None)

    def cpu_s(self) -> float:
        """User and system time of the tree so far."""
        return tree_cpu_s(self._process.pid)

    def busiest_thread_cpu_s(self) -> float:
        """User and system time so far of the thread of the tree that has used most."""
        return thread_cpu_max_s(self._process.pid)

    def rss_max_mb(self) -> float:
        """The tree's peak of resident memory so far."""
        return tree_rss_max_mb(self._process.pid)

    def rss_mb(self) -> float:
        """The tree's resident memory as it is now."""
        return tree_rss_mb(self._process.pid)

    def check_alive(self) -> None:
        """Raise EndedEarlyError, with the end of its log, if it has ended."""
        status = self._process.poll()
        if status is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise EndedEarlyError(f"the program ended with status {status}; {self.log}:\n{tail}")

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._process.kill()
        self._process.wait(_STOP_S)
        self._reader.join(_STOP_S)
        self._log_file.close()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that does not end. A second call does nothing."""
        if self._log_file.closed:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_STOP_S)
        self._reader.join(_STOP_S)
        self._log_file.close()
