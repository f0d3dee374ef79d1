"""What a page asks its readers to save and to type, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

#: a file to save, with the block of code that follows; commands in a fenced block of a shell; and
#: the installation, which a page may have as an indented line
_STEP = re.compile(
    r"Save this as `(?P<name>[^`]+)`[^\n]*\n+```\w*[^\n]*\n(?P<text>.*?)^```"
    r"|^```(?:sh|bash|shell)\n(?P<commands>.*?)^```"
    r"|^    (?P<install>pip install [^\n]+)$",
    re.DOTALL | re.MULTILINE,
)


class File(NamedTuple):
    """A file that readers save."""

    name: str
    text: str


class Command(NamedTuple):
    """A line that readers type."""

    line: str


Step = File | Command


def steps_of(page: Path) -> list[Step]:
    """Return the steps of a page; a line that ends with a backslash continues."""
    found: list[Step] = []
    for match in _STEP.finditer(page.read_text(encoding="utf-8")):
        if (name := match["name"]) is not None:
            found.append(File(name, match["text"]))
        else:
            lines = (match["commands"] or match["install"]).replace("\\\n", " ").splitlines()
            typed = (line.strip().removeprefix("$ ") for line in lines)
            found += [Command(line) for line in typed if line and not line.startswith("#")]
    return found
