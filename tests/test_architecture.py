"""ARCHITECTURE.md is true: its floor plan, its map of modules, and every link."""

from __future__ import annotations

import re

from tests.architecture_page import PAGE, ROOT, rendered

TEXT = PAGE.read_text(encoding="utf-8")


def test_rooms_modules_and_lines_are_those_of_the_source() -> None:
    assert rendered(TEXT) == TEXT, "python -m tests.architecture_page writes them anew"


def test_every_link_leads_to_a_file_or_a_heading() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in TEXT.splitlines()
        if line.startswith("#")
    }
    targets = re.findall(r"\]\(([^)\s]+)\)", TEXT)
    wrong = [
        target
        for target in targets
        if not (
            target[1:] in headings
            if target.startswith("#")
            else (ROOT / target.partition("#")[0]).exists()
        )
    ]
    assert targets
    assert not wrong


def test_every_file_that_is_named_exists() -> None:
    named = set(
        re.findall(r"`((?:logstate|topology|changelog|tests|docs|examples)/[\w/.]+)`", TEXT)
    )
    assert not {name for name in named if not (ROOT / name).exists()}
