"""The tutorial's files and commands, as a script that a shell runs in an empty folder."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.pages import TUTORIAL, Block, blocks

#: ends the processes that still run when a step has failed
STOP = """stop() {
    kill -9 $(jobs -p) || true
    test -z "$LOGSTATE_BOOTSTRAP" || logstate broker stop --port "${LOGSTATE_BOOTSTRAP#*:}" || true
}
trap 'stop > /dev/null 2>&1' EXIT"""


class Step(NamedTuple):
    """Commands of the page, and what they have to print."""

    place: str
    commands: str
    expected: str


def steps(*, with_spark: bool, without: Callable[[str], bool] = lambda _: False) -> list[Step]:
    """The steps of the page in its order, less the commands that ``without`` accepts."""
    shown = [*blocks(TUTORIAL), Block("", "", "", "", "")]
    found = []
    for block, following in pairwise(shown):
        if block.marker != "run" or (block.argument == "spark" and not with_spark):
            continue
        lines = [line for line in block.text.splitlines() if not without(line)]
        expected = following.text if following.language == "text" else ""
        if lines:
            found.append(Step(block.place, "\n".join(lines), expected))
    return found


def write_files(folder: Path) -> None:
    for block in blocks(TUTORIAL):
        if block.marker == "file":
            (folder / block.argument).write_text(block.text, encoding="utf-8")


def run(
    folder: Path, steps: list[Step], variables: Mapping[str, str], *, timeout_s: float
) -> dict[str, float]:
    """Run the steps in one shell; seconds from the start to the end of each, by its place.

    Raises AssertionError if a command fails, or prints something else than the page shows.
    """
    write_files(folder)
    script = [STOP, "set -e"]
    for number, step in enumerate(steps):
        # In this shell, not in another one: the next step needs its variables and processes.
        script += [f"{{ {step.commands}\n}} > printed.{number}", f"date +%s.%N > end.{number}"]
    started = time.time()
    answer = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    seconds = {}
    for number, step in enumerate(steps):
        ended = folder / f"end.{number}"
        logs = "".join(f"\n{log.name}: {log.read_text()[-2000:]}" for log in folder.glob("*.log"))
        assert ended.exists(), f"{step.place} failed: {answer.stderr[-3000:]}{logs}"
        printed = (folder / f"printed.{number}").read_text(encoding="utf-8")
        if step.expected:
            assert printed == step.expected, f"{step.place} printed {printed!r}"
        seconds[step.place] = float(ended.read_text()) - started
    assert answer.returncode == 0, answer.stderr[-3000:]
    return seconds
