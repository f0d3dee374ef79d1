"""An application instance seen from outside: a child process that reports and can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from examples.flights.instance import Status, StoreRows, StoresWritten

_ROOT = Path(__file__).resolve().parent.parent.parent


class InstanceError(RuntimeError):
    """An instance ended, or does not answer; the message ends with the last lines of its log."""


class Instance:
    """One process of ``examples.flights.instance``, started by the constructor.

    Its log goes to ``<state directory>.log``. It ends when this process ends, however that happens,
    because its standard input is then closed.
    """

    def __init__(self, name: str, bootstrap: str, application_id: str, state_dir: Path) -> None:
        self.name = name
        self.status: Status | None = None
        self.reports = 0
        """How often it has told its status."""
        self._log = state_dir.with_suffix(".log")
        self._written = threading.Event()
        self._stopping = False
        arguments = ["--bootstrap", bootstrap, "--application-id", application_id]
        arguments += ["--state-dir", str(state_dir), "--instance-id", name, "--supervised"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "examples.flights.instance", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=_ROOT,
                # Ctrl-C is for the demo, which then stops its instances in order.
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(_pipe(self._process.stdout),))
        self._reader.daemon = True
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL is what it died of."""
        return self._process.poll() == -signal.SIGKILL

    def check(self) -> None:
        """Raise when the process has ended on its own."""
        if not self.is_alive and not self._stopping:
            raise self._failure(f"ended with status {self._process.returncode}")

    def wait_for(self, condition: Callable[[Status], bool], what: str, timeout_s: float) -> None:
        """Return when the reported status fulfils the condition; raise after the time is over."""
        deadline = time.monotonic() + timeout_s
        while self.status is None or not condition(self.status):
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"{what}: not within {timeout_s:g} s; it says {self.status}")
            time.sleep(0.05)

    def stores(self, path: Path, timeout_s: float = 180) -> StoreRows:
        """The rows it holds, through a file."""
        self._written.clear()
        self._tell(f"stores {path}")
        deadline = time.monotonic() + timeout_s
        while not self._written.wait(0.1):
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"did not write its stores within {timeout_s:g} s")
        return msgspec.json.decode(path.read_bytes(), type=StoreRows)

    def freeze(self) -> None:
        """Stop all its threads where they are (SIGSTOP) and return when they stand still."""
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, closed or said goodbye to. A frozen process dies as well."""
        self._stopping = True
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def stop(self, timeout_s: float = 180) -> None:
        """Let it end in order; kill it when it does not."""
        if not self.is_alive:
            return
        self._stopping = True
        self._tell("stop")
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"did not stop within {timeout_s:g} s and was killed") from None
        self._reader.join()

    def _read(self, lines: IO[bytes]) -> None:
        decode = msgspec.json.Decoder(Status | StoresWritten).decode
        for line in lines:
            report = decode(line)
            if isinstance(report, Status):
                self.status = report
                self.reports += 1
            else:
                self._written.set()

    def _tell(self, command: str) -> None:
        stdin = _pipe(self._process.stdin)
        try:
            stdin.write(f"{command}\n".encode())
            stdin.flush()
        except BrokenPipeError:
            self.check()

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        self._process.send_signal(number)

    def _failure(self, what: str) -> InstanceError:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return InstanceError("\n".join([f"instance {self.name} {what}; its log:", *lines]))


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "both pipes are asked for when the process is started"
    return pipe
