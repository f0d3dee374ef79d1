"""Faust counts, is stopped, logstate counts on.

A sample of ``python -m tests.campaigns.faust_adoption``.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.contracts.errors import MembersLiveError, RestoreError, UpgradeError
from tests.broker.group_settings import expect_heartbeats_within
from tests.campaigns.faust_adoption.beside_story import tell_beside
from tests.campaigns.faust_adoption.story import PARTITIONS, TABLES, Story
from tests.patience import PATIENCE_S


def test_logstate_counts_on_where_faust_stopped(bootstrap: str, tmp_path: Path) -> None:
    story = Story(bootstrap, f"visits-{uuid.uuid4().hex[:8]}", tmp_path, pages=5)
    story.send(300)
    story.count_with_faust(at_least=100)

    with pytest.raises(UpgradeError, match=r"Take its tables over with logstate\.faust\.adopt"):
        story.application().start(timeout=timedelta(seconds=PATIENCE_S))
    with pytest.raises(UpgradeError, match="table 'minutes' would be left behind"):
        story.adopt(tables={"pages": "page_totals"})
    with pytest.raises(RestoreError, match="a row of table 'pages' does not become one of store"):
        story.adopt(convert={"pages": lambda total: total // 0})
    story.adopt(convert={"pages": lambda total: total + 1})
    story.crash_before_the_end_of_an_adoption()
    adopted = story.adopt()
    counted = sum(adopted.offsets.values())
    assert 100 <= counted <= 300
    assert len(adopted.offsets) == PARTITIONS
    with pytest.raises(UpgradeError, match="has run already, or its tables were taken over"):
        story.adopt()

    expect_heartbeats_within(bootstrap, story.name)  # else records may be read twice
    assert story.go_on(more=200) == story.expected()
    assert story.read == story.sent - counted
    assert set(adopted.rows) == set(TABLES.values())
    with story.application() as app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        with pytest.raises((MembersLiveError, UpgradeError)):
            story.adopt()


def test_both_libraries_count_a_topic_in_one_process(bootstrap: str, tmp_path: Path) -> None:
    story = Story(bootstrap, f"visits-{uuid.uuid4().hex[:8]}", tmp_path, pages=5)
    seen = tell_beside(story, 200)
    assert seen.logstate == seen.faust == seen.expected
