"""The pages of the documentation as data: their blocks of code, links, anchors and purpose.

What follows the language of a block says what becomes of it: ``no-run: reason`` for one that
cannot run here; on the README and the tutorial, ``file: NAME`` for a file, and ``run`` for commands
that tests/campaigns/first_minutes types (``run: spark`` for those that install PySpark).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
SITE = sorted((ROOT / "docs").rglob("*.md"))
#: pages that are read in the repository only
OTHERS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]

TUTORIAL = ROOT / "docs" / "tutorial.md"

_MARKER = re.compile(r"(no-run|file|run): *(.+)|(run)")
_PARSER = MarkdownIt("commonmark").enable("table")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)


@cache
def tokens(page: Path) -> list[Token]:
    return _PARSER.parse(page.read_text(encoding="utf-8"))


class Block(NamedTuple):
    """A block of code. An indented block has the language ``indented``."""

    place: str
    language: str
    marker: str
    argument: str
    text: str

    @property
    def is_session(self) -> bool:
        return self.text.lstrip().startswith(">>> ")


def blocks(page: Path) -> Iterator[Block]:
    for token in tokens(page):
        place = f"{name_of(page)}:{(token.map or [0])[0] + 1}"
        if token.type == "code_block":
            yield Block(place, "indented", "", "", token.content)
        elif token.type == "fence":
            language, _, rest = token.info.strip().partition(" ")
            marker = _MARKER.fullmatch(rest)
            name, argument, bare = marker.groups("") if marker else (rest, "", "")
            yield Block(place, language, name or bare, argument, token.content)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Each link to a file or a heading of the project, with its place."""
    for token in tokens(page):
        for child in token.children or ():
            target = child.attrs.get("href", child.attrs.get("src", ""))
            if target and not re.match(r"[a-z]+:", str(target)):
                yield f"{name_of(page)}:{(token.map or [0])[0] + 1}", unquote(str(target))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    found: list[str] = []
    parsed = tokens(page)
    for opening, text in pairwise(parsed):
        if opening.type == "heading_open":
            shown = "".join(one.content for one in text.children or ())
            slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
            repeated = sum(one == slug or one.rpartition("-")[0] == slug for one in found)
            found.append(f"{slug}-{repeated}" if slug in found else slug)
    return set(found)


def purpose(page: Path) -> str:
    """The paragraph below the title, as one line; empty without one."""
    parsed = tokens(page)
    kinds = [one.type for one in parsed[:5]]
    if kinds[:1] != ["heading_open"] or parsed[0].tag != "h1" or kinds[3:4] != ["paragraph_open"]:
        return ""
    return " ".join(parsed[4].content.split())
