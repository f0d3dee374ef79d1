"""What a command says whose output goes to a device that is full, to nobody, or into a pipe."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S


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


def test_a_command_whose_output_is_closed_ends_well(tmp_path: Path) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m logstate --version >&-"
    ended = subprocess.run(
        ["/bin/sh", "-c", command],
        stderr=subprocess.PIPE,
        text=True,
        env={"LOGSTATE_CACHE_DIR": str(tmp_path)},
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_line_of_json_arrives_before_the_next_one_is_known() -> None:
    program = (
        "import sys; from logstate.cli.shared.printing import print_json;"
        " print_json({'a': 1}); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    ) as follows:
        assert follows.stdin is not None
        assert follows.stdout is not None
        arrived = select.select([follows.stdout], [], [], PATIENCE_S)[0]
        line = follows.stdout.readline() if arrived else ""
        follows.stdin.close()

    assert line == '{"a": 1}\n'
