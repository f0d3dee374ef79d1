"""One version in one mode: a broker's stores, the program that reads them, and what it told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from tests.campaigns.spark_versions.cells import Cell, judged
from tests.campaigns.spark_versions.written_log import WrittenLog, iso
from tests.spark.test_backfill import Shop

READER = Path(__file__).parent / "reader.py"
MODES = ("classic", "connect")
_AT_MOST_S = 900


def column(
    bootstrap: str, release: str, mode: str, python: Path, checks: Sequence[str] = ()
) -> list[Cell]:
    """The cells of a version and mode, all or some of the checks.

    ``python`` is of an environment that has this version.
    """
    name = f"versions-{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        log = WrittenLog(bootstrap, name)
        shop = Shop(bootstrap, f"{name}-filled", Path(folder), partitions=2)
        shop.click("ada", "home", 100_000)
        shop.run()
        names = {"bootstrap": bootstrap, "application": name, "backfilled": shop.name}
        names["first_window"] = iso(log.start_ms)
        wanted = {one: rows for one, rows in log.wanted().items() if not checks or one in checks}
        command = [str(python), str(READER), mode, json.dumps(names), *checks]
        with running(command, Path(folder)) as program:
            told = heard(program, log)
        cells = [judged(release, mode, one, told.get(one), wanted[one]) for one in wanted]
        if any(one.check not in told for one in cells):
            print((Path(folder) / "stderr").read_text()[-4_000:], flush=True)
    return cells


def heard(program: subprocess.Popen[str], log: WrittenLog) -> dict[str, Any]:
    """What the program prints for each check; more is written where it asks for it."""
    told = {}
    assert program.stdout is not None
    assert program.stdin is not None
    for line in program.stdout:
        if line.startswith("@cell "):
            cell = json.loads(line.removeprefix("@cell "))
            told[cell.pop("check")] = cell
        elif line.startswith("@more"):
            log.write_more()
            program.stdin.write("\n")
            program.stdin.flush()
    return told


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, in an empty directory; it and what it started are gone afterwards."""
    with started(command, folder) as program:
        timer = Timer(_AT_MOST_S, kill, [program])
        timer.start()
        try:
            yield program
        finally:
            timer.cancel()
            kill(program)
            program.wait(30)


def started(command: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a program in a process group of its own, with its errors in ``folder/stderr``."""
    hidden = ("SPARK_", "PYSPARK_", "PYTHON")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    # A time zone of its own, which nothing that is read may depend on.
    variables |= {
        "TZ": "Asia/Kolkata",
        "PYSPARK_PYTHON": command[0],
        "PYSPARK_DRIVER_PYTHON": command[0],
    }
    with (folder / "stderr").open("a") as stderr:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )


def kill(program: subprocess.Popen[str]) -> None:
    """Send SIGKILL to a program and to all processes that it started."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
