"""Run the simulation in another process, because measuring coverage makes it slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: below the time-out of a test, so that what it had written is told
_TIMEOUT_S = 540


def simulation(*arguments: str, hash_seed: str = "0") -> str:
    """The command's output; AssertionError where it exits with an error."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.campaigns.simulation", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        timeout=_TIMEOUT_S,
    )
    assert told.returncode == 0, told.stdout[-8_000:] + told.stderr[-4_000:]
    return told.stdout
