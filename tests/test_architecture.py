"""Every link in ARCHITECTURE.md is valid, and every file that it names exists."""

from __future__ import annotations

import re

from tests.architecture_page import PAGE, ROOT, unknown_names

TEXT = PAGE.read_text(encoding="utf-8")


def test_a_package_defines_the_name_of_each_link_to_it() -> None:
    assert not list(unknown_names(TEXT))


def test_a_link_to_an_unknown_name_is_reported() -> None:
    link = "[Committer.comit](logstate/commit/)"
    assert list(unknown_names(link)) == ["logstate/commit/ defines no Committer.comit"]
    assert not list(unknown_names("[Committer.commit](logstate/commit/)"))


def test_the_page_has_at_most_20_kilobytes() -> None:
    assert len(TEXT.encode()) <= 20 * 1024


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
