"""``python -m tests.campaigns.broker_minute``: what a new user waits for, and has on the disk then.

It makes a wheel of the project, an empty virtual environment and an empty cache; then it counts:
``pip install``, ``logstate broker start``, and a second start. Status 1 is for beyond the limits.
``--without-java`` hides the machine's Java and installs the extra ``java`` beside ``broker``.
``LOGSTATE_MAVEN_URL`` and pip's own settings say where everything comes from.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 60.0
MEGABYTES_MAX = {"broker": 115, "broker,java": 250}


@contextmanager
def timed(what: str, seconds: dict[str, float]) -> Iterator[None]:
    begin = time.monotonic()
    yield
    seconds[what] = time.monotonic() - begin


def megabytes(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def built_wheel(python: Path, folder: Path) -> Path:
    """A wheel of a copy of the project: setuptools writes into what it builds."""
    copy = folder / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("logstate", "topology", "changelog"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, copy]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(cache: Path, *, without_java: bool) -> dict[str, str]:
    found = {**os.environ, "LOGSTATE_CACHE_DIR": str(cache)}
    if without_java:
        found.pop("JAVA_HOME", None)
        # Nothing of what is started looks for programs there, but for the shell of the watchdog.
        found["PATH"] = "/nowhere"
    return found


def measure(extras: str, folder: Path, *, without_java: bool) -> tuple[dict[str, float], float]:
    """The seconds of each step, and the megabytes that pip and the cache have added."""
    seconds: dict[str, float] = {}
    home = folder / "venv"
    venv.create(home, with_pip=True)
    empty = megabytes(home)
    python, command = home / "bin" / "python", home / "bin" / "logstate"
    wheel = built_wheel(python, folder)
    environ = environment(folder / "cache", without_java=without_java)
    with timed("pip install", seconds):
        wanted = f"{wheel}[{extras}]"
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-cache-dir", wanted], check=True)
    for start in ("first start", "second start"):
        with timed(start, seconds):
            broker = [command, "broker", "start"]
            answer = subprocess.run(
                broker, check=True, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True
            )
        port = answer.stdout.strip().rpartition(":")[2]
        stop = [command, "broker", "stop", "--port", port]
        subprocess.run(stop, check=True, env=environ, cwd=folder, stdout=subprocess.DEVNULL)
    return seconds, megabytes(home) - empty + megabytes(folder / "cache")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.broker_minute")
    parser.add_argument("--without-java", action="store_true")
    given = parser.parse_args()
    extras = "broker,java" if given.without_java else "broker"
    with tempfile.TemporaryDirectory(prefix="broker-minute-") as folder:
        seconds, size = measure(extras, Path(folder), without_java=given.without_java)
    for what, took in seconds.items():
        print(f"{what:14} {took:6.1f} s")
    total = seconds["pip install"] + seconds["first start"]
    size_max = MEGABYTES_MAX[extras]
    limits = f"at most {SECONDS_MAX:g} s, {size_max} MB"
    print(f"to the first address {total:.1f} s, {size:.0f} MB ({limits})")
    return 0 if total <= SECONDS_MAX and size <= size_max else 1


if __name__ == "__main__":
    sys.exit(main())
