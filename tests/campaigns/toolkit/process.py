"""A module of this project in a separate process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


def start_module(
    module: str, *arguments: object, log: Path | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start ``python -m module arguments`` in the project's root.

    ``log``: the file to which standard error is appended, and standard output unless ``options``
    say otherwise. ``options`` are those of ``subprocess.Popen``.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    if log is None:
        return subprocess.Popen(command, **{"cwd": ROOT, **options})
    with log.open("ab") as file:
        return subprocess.Popen(command, **{"cwd": ROOT, "stdout": file, "stderr": file, **options})


def run_module(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module arguments`` in the project's root to its end, and keep its output."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def kill(process: subprocess.Popen[Any]) -> None:
    """Send SIGKILL, and wait for the end."""
    process.kill()
    process.wait(PATIENCE_S)


def terminate(process: subprocess.Popen[Any]) -> int | None:
    """Send SIGTERM, and return the exit status; None after a kill because the process did not end.

    A process that registered ``faulthandler`` for SIGUSR1 writes its stacks before that kill.
    """
    process.terminate()
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)  # the stacks are written
        kill(process)
        return None


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing"
