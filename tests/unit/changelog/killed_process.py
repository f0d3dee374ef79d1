"""A process that is killed while it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


def kill_on_the_way(program: str, *arguments: str) -> None:
    """Run a program until it prints "on the way", and kill it there."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"on the way\n"
    process.kill()
    process.wait(PATIENCE_S)
    process.stdout.close()
