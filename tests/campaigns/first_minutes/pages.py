"""What a page asks its readers to save and to type, in the order of the page.

The language of a block is followed by ``file: NAME`` for a file, and by ``run`` for commands
(``run: spark`` for those that install PySpark). A block of ``text`` below commands is what they
print.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.pages import Block, blocks


class File(NamedTuple):
    """A file that readers save."""

    name: str
    text: str


class Commands(NamedTuple):
    """Lines that readers type, and what these print together; empty if the page does not say."""

    place: str
    lines: list[str]
    expected: str

    def without(self, beginning: str) -> Commands:
        """The same less the lines that begin like this."""
        return self._replace(lines=[one for one in self.lines if not one.startswith(beginning)])


Step = File | Commands


def steps_of(page: Path, *, with_spark: bool = False) -> list[Step]:
    """Return the steps of a page; a line that ends with a backslash continues."""
    found: list[Step] = []
    for block, following in pairwise([*blocks(page), Block("", "", "", "", "")]):
        if block.marker == "file":
            found.append(File(block.argument, block.text))
        elif block.marker == "run" and (block.argument != "spark" or with_spark):
            lines = (line.strip() for line in block.text.replace("\\\n", " ").splitlines())
            typed = [line for line in lines if line and not line.startswith("#")]
            expected = following.text if following.language == "text" else ""
            found.append(Commands(block.place, typed, expected))
    return found
