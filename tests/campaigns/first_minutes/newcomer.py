"""A new user's machine: an empty home and folder, a new environment, neither Java nor Maven.

The package registries are those of this machine: pip's settings, proxies and certificates are
passed on, and so is the Maven repository of the broker's jars. `pip install logstate` installs a
wheel that was built from this source.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from logstate.local_broker.repository import repository_url
from tests.campaigns.first_minutes.pages import Command, File, Step

#: in front of the number of a step, in what the shell prints
_MARK = "\x1e"
#: variables that lead to what this machine has already
_HIDDEN = re.compile(
    r"JAVA|JDK|MAVEN_HOME|M2|LOGSTATE_(?!MAVEN_URL)|VIRTUAL_ENV|PYTHON|PIP_CACHE|XDG"
)
_PIP_FILES = (".config/pip/pip.conf", ".pip/pip.conf")


class Typed(NamedTuple):
    """A command, the seconds that it took, and the lines it printed, each with its second."""

    line: str
    seconds: float
    printed: list[tuple[float, str]]


class Failed(AssertionError):
    """A command of the page failed."""


def environment(folder: Path, wheel: Path | None) -> dict[str, str]:
    """Create the machine below ``folder``; return the environment of its shell."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    venv.create(folder / "venv", with_pip=True)
    found = {name: one for name, one in os.environ.items() if not _HIDDEN.match(name)}
    real = Path.home()
    found |= {"HOME": str(home), "PATH": str(folder / "venv" / "bin"), "PYTHONUNBUFFERED": "1"}
    if "PIP_CONFIG_FILE" not in found:
        own = next((real / name for name in _PIP_FILES if (real / name).exists()), None)
        found |= {} if own is None else {"PIP_CONFIG_FILE": str(own)}
    if (real / ".m2" / "settings.xml").exists():
        found["LOGSTATE_MAVEN_URL"] = repository_url()
    if wheel is not None:
        pins = folder / "constraints.txt"
        pins.write_text(f"logstate=={wheel.name.split('-')[1]}\n", encoding="utf-8")
        for name, more in (("PIP_FIND_LINKS", wheel.parent), ("PIP_CONSTRAINT", pins)):
            found[name] = f"{found.get(name, '')} {more}".strip()
    return found


def type_steps(steps: Sequence[Step], folder: Path, environ: Mapping[str, str]) -> Iterator[Typed]:
    """Save the files and type the commands in one shell; yield each command when it has ended.

    Raises Failed, with the output, for the first command that fails.
    """
    lines = [step.line for step in steps if isinstance(step, Command)]
    marked = (f"printf '{_MARK}{number}\\n'\n{line}\n" for number, line in enumerate(lines))
    for step in steps:
        if isinstance(step, File):
            (folder / "work" / step.name).write_text(step.text, encoding="utf-8")
    script = folder / "typed.sh"
    script.write_text(f"set -e\n{''.join(marked)}printf '{_MARK}end\\n'\n", encoding="utf-8")
    with subprocess.Popen(
        ["/bin/sh", script],
        cwd=folder / "work",
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        begin, printed = time.monotonic(), list[tuple[float, str]]()
        current: str | None = None
        for text in shell.stdout:
            after = time.monotonic() - begin
            if not text.startswith(_MARK):
                printed.append((after, text.rstrip("\n")))
                continue
            if current is not None:
                yield Typed(current, after, printed)
            end = text[1:].strip() == "end"
            current = None if end else lines[int(text[1:])]
            begin, printed = time.monotonic(), []
    if current is not None:
        said = "\n".join(text for _, text in printed)
        raise Failed(f"`{current}` ended with status {shell.returncode}:\n{said}")


def stop_broker(folder: Path, environ: Mapping[str, str]) -> None:
    """Stop the broker that a page may have left running."""
    command = folder / "venv" / "bin" / "logstate"
    if command.exists():
        subprocess.run(
            [command, "broker", "stop"],
            cwd=folder,
            env=dict(environ),
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
