"""A new user's machine: an empty home and folder, a new environment, neither Java nor Maven.

The package registries are those of this machine: pip's settings, proxies and certificates are
passed on, and so is the Maven repository of the broker's jars. `pip install logstate` installs a
wheel that was built from this source.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from logstate.local_broker.jars import cache_directory
from logstate.local_broker.repository import repository_url
from tests.built_wheel import ROOT
from tests.campaigns.first_minutes.pages import Commands, File, Step

#: in front of the number of a line, in what the shell prints
_MARK = "\x1e"
#: variables that lead to what this machine has already
_HIDDEN = re.compile(
    r"JAVA|JDK|MAVEN_HOME|M2|LOGSTATE_(?!MAVEN_URL)|VIRTUAL_ENV|PYTHON|PIP_CACHE|XDG"
)
#: programs that a new user is not expected to have, or that are not those of the environment
_HIDDEN_PROGRAMS = re.compile(r"(java|jar|mvn|python|pip|logstate)[\w.-]*")
#: ends the broker that is left when the shell ends; processes in the background are in its group
_STOP = """stop() {
    test -z "$LOGSTATE_BOOTSTRAP" || logstate broker stop --port "${LOGSTATE_BOOTSTRAP#*:}"
}
trap 'stop > /dev/null 2>&1' EXIT
trap 'exit 1' TERM
set -e"""
_PIP_FILES = (".config/pip/pip.conf", ".pip/pip.conf")


class Typed(NamedTuple):
    """A command, the seconds that it took, and the lines it printed, each with its second."""

    line: str
    seconds: float
    printed: list[tuple[float, str]]

    def text(self) -> str:
        """What it printed, each line after a line break."""
        return "".join(f"\n{text}" for _, text in self.printed)


class Failed(AssertionError):
    """A command of the page failed, or printed something else than the page shows."""


def environment(folder: Path, wheel: Path | None) -> dict[str, str]:
    """Create the machine below ``folder``; return the environment of its shell."""
    found = {name: one for name, one in os.environ.items() if not _HIDDEN.match(name)}
    found |= _folders(folder)
    venv.create(folder / "venv", with_pip=True)
    _link_programs(folder / "programs")
    found["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{folder / 'programs'}"
    if "PIP_CONFIG_FILE" not in found:
        own = next((path for name in _PIP_FILES if (path := Path.home() / name).exists()), None)
        found |= {} if own is None else {"PIP_CONFIG_FILE": str(own)}
    if wheel is not None:
        pins = folder / "constraints.txt"
        pins.write_text(f"logstate=={wheel.name.split('-')[1]}\n", encoding="utf-8")
        for name, more in (("PIP_FIND_LINKS", wheel.parent), ("PIP_CONSTRAINT", pins)):
            found[name] = f"{found.get(name, '')} {more}".strip()
    return found


def environment_of_this_python(folder: Path) -> dict[str, str]:
    """Create a home and a folder; `python` and `logstate` are those of this source."""
    found = {name: one for name, one in os.environ.items() if name != "LOGSTATE_BOOTSTRAP"}
    found |= _folders(folder)
    (programs := folder / "programs").mkdir()
    for command, module in (("logstate", "-m logstate "), ("python", "")):
        script = programs / command
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    found["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return found | {"PYTHONPATH": str(ROOT), "LOGSTATE_CACHE_DIR": str(cache_directory())}


def _folders(folder: Path) -> dict[str, str]:
    for name in ("home", "work"):
        (folder / name).mkdir()
    found = {"HOME": str(folder / "home"), "PYTHONUNBUFFERED": "1"}
    if (Path.home() / ".m2" / "settings.xml").exists():  # which the new home does not have
        found["LOGSTATE_MAVEN_URL"] = repository_url()
    return found


def _link_programs(folder: Path) -> None:
    """Link the programs of the system, less those that are hidden."""
    folder.mkdir()
    for place in (Path("/usr/bin"), Path("/bin")):
        for program in place.iterdir():
            link = folder / program.name
            if not _HIDDEN_PROGRAMS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)


def type_steps(steps: Sequence[Step], folder: Path, environ: Mapping[str, str]) -> Iterator[Typed]:
    """Save the files and type the commands in one shell; yield each command when it has ended.

    Raises Failed, with the output, for the first command that fails, and for the first block of
    commands that prints something else than the page shows. A broker and processes in the
    background that are left are stopped.
    """
    for step in steps:
        if isinstance(step, File):
            (folder / "work" / step.name).write_text(step.text, encoding="utf-8")
    blocks = [step for step in steps if isinstance(step, Commands)]
    lines = [(line, block) for block in blocks for line in block.lines]
    marked = (f"printf '{_MARK}{at}\\n'\n{line}\n" for at, (line, _) in enumerate(lines))
    script, errors = folder / "typed.sh", folder / "errors.log"
    script.write_text(f"{_STOP}\n{''.join(marked)}printf '{_MARK}end\\n'\n", encoding="utf-8")
    with (
        errors.open("w") as log,
        subprocess.Popen(
            ["/bin/sh", script],
            cwd=folder / "work",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,
        ) as shell,
    ):
        try:
            left = yield from _typed(shell, lines)
        except BaseException:
            os.killpg(shell.pid, signal.SIGTERM)
            raise
        finally:
            shell.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    if left is not None:
        logs = [errors, *sorted((folder / "work").glob("*.log"))]
        texts = "".join(f"\n{one.name}: {one.read_text()[-2_000:]}" for one in logs)
        raise Failed(f"`{left.line}` ended with status {shell.returncode}:{left.text()}{texts}")


def _typed(
    shell: subprocess.Popen[str], lines: Sequence[tuple[str, Commands]]
) -> Generator[Typed, None, Typed | None]:
    """Yield the lines that have ended; return the one that has not."""
    assert shell.stdout is not None
    begin, printed = time.monotonic(), list[tuple[float, str]]()
    at: int | None = None
    of_block = list[Typed]()
    for text in shell.stdout:
        after = time.monotonic() - begin
        if not text.startswith(_MARK):
            printed.append((after, text.rstrip("\n")))
            continue
        if at is not None:
            line, block = lines[at]
            ended = Typed(line, after, printed)
            of_block.append(ended)
            if len(of_block) == len(block.lines):
                _compare(block, "".join(one.text() for one in of_block))
                of_block = []
            yield ended
        at = None if text[1:].strip() == "end" else int(text[1:])
        begin, printed = time.monotonic(), []
    return None if at is None else Typed(lines[at][0], time.monotonic() - begin, printed)


def _compare(block: Commands, printed: str) -> None:
    if block.expected and printed.strip() != block.expected.strip():
        raise Failed(f"{block.place} printed {printed!r} and not {block.expected!r}")
