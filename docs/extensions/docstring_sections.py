"""The sections of the docstrings, as napoleon reads them.

The semantics of an operator become a list. A section may continue a sentence, as ``Args: as for
every operator, and`` does before the arguments that are added: the sentence becomes a paragraph,
and the lines below it a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

HEADER = re.compile(r"(Semantics|Args|Returns|Raises):(?: (.+))?")
LABEL = re.compile(r" {4}([A-Z][a-z]+(?: [a-z]+)?): (.*)")
TITLES = {"Args": "Parameters"}


def sections(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with each section in a form that napoleon or docutils reads."""
    section, is_sentence = "", False
    for line in lines:
        header = HEADER.fullmatch(line)
        if header is not None:
            section, sentence = header.group(1), header.group(2)
            is_sentence = sentence is not None
            if is_sentence or section == "Semantics":
                yield from ("", f"*{TITLES.get(section, section)}:* {sentence or ''}".rstrip())
            else:
                yield line
            if section == "Semantics" and not is_sentence:
                yield ""
        elif not section:
            yield line
        elif line.startswith("    "):
            if is_sentence:
                yield from ("", *([f"{section}:"] if section != "Semantics" else []))
                is_sentence = False
            yield _entry(line) if section == "Semantics" else line
        else:
            section = section if is_sentence and line else ""
            yield line


def _entry(line: str) -> str:
    label = LABEL.fullmatch(line)
    return f"- **{label.group(1)}:** {label.group(2)}" if label else f"  {line.strip()}"


def process(*event: Any) -> None:
    """Change the lines of a docstring, the last argument of the event, before napoleon does."""
    lines = event[-1]
    lines[:] = list(sections(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the function; napoleon's has the priority 500."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
