"""ARCHITECTURE.md is true: every link of it, and every file that it names."""

from __future__ import annotations

import re

from tests.architecture_page import PAGE, ROOT, unknown_names

TEXT = PAGE.read_text(encoding="utf-8")


def test_what_a_link_names_is_defined_in_its_file() -> None:
    assert not list(unknown_names(TEXT))


def test_a_link_to_what_is_not_there_is_told() -> None:
    link = "[Committer.comit](logstate/commit/commit.py)"
    assert list(unknown_names(link)) == ["logstate/commit/commit.py defines no Committer.comit"]
    assert not list(unknown_names("[Committer.commit](logstate/commit/commit.py)"))


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
