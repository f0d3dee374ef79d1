"""What a command says whose output goes to a device that is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", [["--version"], ["broker", "status", "--json"]])
def test_a_full_device_is_told_in_one_line(command: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "logstate", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={"LOGSTATE_CACHE_DIR": str(tmp_path)},
            check=False,
        )

    assert ended.returncode == 1
    assert "logstate: not all of the output could be written: No space left" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
