"""Rows with a TTL after a kill and a lost disk: a sample of ``python -m tests.campaigns.ttl``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.campaigns.ttl.story import run


def test_store_changelog_and_remote_query_have_the_rows_that_did_not_expire(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    found = run(bootstrap, unique("ttl"), tmp_path, 15_000, spark=None)
    assert not found.wrong
    assert len(found.expected) == 1_501
    assert set(found.by_reader) == {
        "store before the deletion", "store", "changelog", "remote query"
    }  # fmt: skip
