"""Words of this code base that readers do not know, and the word to use instead.

Each phrase has the number of places where it is left: a new place fails, and so does a number that
is too high after places were reworded. The goal is zero for each.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.test_tidy import LIBRARY, ROOT


class Phrase(NamedTuple):
    """``left``: how often it is in the library and its pages."""

    pattern: str
    instead: str
    left: int


PHRASES = [
    Phrase(r"whoever", "the caller, the client, any process that", 0),
    Phrase(r"anew", "again", 0),
    Phrase(r"beside", "next to, in addition to", 1),
    Phrase(r"heirs?", "the next owner", 0),
    Phrase(r"misdeclared", "declaration_error", 0),
    Phrase(r"namesakes?", "a topic of the same name", 0),
    Phrase(r"onlookers?", "an observer", 0),
    Phrase(r"half[ _-]made", "incomplete", 1),
    Phrase(r"is no parameter", "unknown parameter", 0),
    Phrase(r"given up|gives? up", "abandon, stop, close", 0),
    Phrase(r"passe?[sd]? over", "skip", 1),
    Phrase(r"nobody", "no process, no client; or the passive voice", 0),
    Phrase(r"held back", "buffered", 0),
    Phrase(r"went on|goes? on", "continue", 1),
    Phrase(r"told", "received, reported, passed", 6),
]


def _texts() -> list[str]:
    sources = [path for folder in LIBRARY for path in (ROOT / folder).rglob("*.py")]
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [path.read_text(encoding="utf-8") for path in (*sources, *pages)]


TEXT = "\n".join(_texts())


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.pattern)
def test_no_place_uses_a_phrase_that_readers_do_not_know(phrase: Phrase) -> None:
    found = len(re.findall(rf"\b(?:{phrase.pattern})\b", TEXT, re.IGNORECASE))
    assert found <= phrase.left, f"write instead: {phrase.instead}"
    assert found == phrase.left, f"{phrase.left - found} fewer are left: lower the number"
