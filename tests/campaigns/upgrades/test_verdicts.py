"""The list against the comparison alone, and against the page that users read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstate.contracts.clients import TopicDescription
from logstate.contracts.compatibility import worst
from logstate.topics.bound_plan import bind
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest, manifest_changes
from tests.campaigns.upgrades.change import Change
from tests.campaigns.upgrades.changes import CHANGES
from tests.campaigns.upgrades.topologies import INPUT, OTHER, built

PAGE = Path(__file__).resolve().parents[3] / "docs" / "upgrades.md"
TOPICS = {name: TopicDescription(name, 1) for name in (INPUT, OTHER)}


def manifest_of(declare: object, **build: object) -> Manifest:
    return manifest(bind(built(declare, **build), "app", TOPICS))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_judged_as_the_list_says(change: Change) -> None:
    found = manifest_changes(manifest_of(change.before), manifest_of(change.after, **change.build))
    assert str(worst(found)) == change.verdict, found
    text = "\n".join(map(str, found))
    for part in change.says:
        assert part in text


def test_the_page_has_a_row_for_each_change_with_its_verdict() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| what changes |")[2]
    rows = re.findall(r"^\| (.+?) \| (\w+) \|", table, re.MULTILINE)
    assert dict(rows) == {change.name: change.verdict for change in CHANGES}
