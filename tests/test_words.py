"""Words that readers do not know, and the words that the library and its pages use instead."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.test_tidy import LIBRARY, ROOT


class Phrase(NamedTuple):
    pattern: str
    instead: str


PHRASES = [
    Phrase(r"whoever", "the caller, the client, any process that"),
    Phrase(r"anew", "again"),
    Phrase(r"beside", "next to, in addition to"),
    Phrase(r"heirs?", "the next owner"),
    Phrase(r"misdeclared", "declaration_error"),
    Phrase(r"namesakes?", "a topic of the same name"),
    Phrase(r"onlookers?", "an observer"),
    Phrase(r"half[ _-]made", "incomplete"),
    Phrase(r"is no parameter", "unknown parameter"),
    Phrase(r"given up|gives? up", "abandon, stop, close"),
    Phrase(r"passe?[sd]? over", "skip"),
    Phrase(r"nobody", "no process, no client; or the passive voice"),
    Phrase(r"held back", "buffered"),
    Phrase(r"went on|goes? on", "continue"),
    Phrase(r"told", "received, reported, passed"),
]


def _texts() -> list[str]:
    sources = [path for folder in LIBRARY for path in (ROOT / folder).rglob("*.py")]
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [path.read_text(encoding="utf-8") for path in (*sources, *pages)]


TEXT = "\n".join(_texts())


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.pattern)
def test_no_place_uses_a_phrase_that_readers_do_not_know(phrase: Phrase) -> None:
    found = re.findall(rf"\b(?:{phrase.pattern})\b", TEXT, re.IGNORECASE)
    assert not found, f"write instead: {phrase.instead}"
