"""Declarations of stores for processors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from logstate.contracts.stores import StoreSpec
from logstate.topics.cleanup_policies import changelog_config
from logstate.topology import (
    key_value_store,
    lru_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

HOUR = timedelta(hours=1)
DECLARATIONS: dict[str, Callable[..., StoreSpec]] = {
    "key_value": key_value_store,
    "key_value_lru": partial(lru_store, capacity=3),
    "timestamped_key_value": timestamped_key_value_store,
    "window": partial(window_store, size=HOUR, retention=HOUR),
    "session": partial(session_store, retention=HOUR),
    "versioned": partial(versioned_store, history=HOUR),
}


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_settings_of_the_changelog_win_over_those_of_the_kind(kind: str) -> None:
    settings = {"segment.bytes": "1048576", "compression.type": "zstd"}
    spec = DECLARATIONS[kind]("rows", str, int, changelog_config=settings)
    assert spec.kind == kind
    found = changelog_config(spec)
    assert found | settings == found
    assert "compact" in found["cleanup.policy"]


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_a_store_may_do_without_a_changelog(kind: str) -> None:
    assert DECLARATIONS[kind]("rows", str, int).is_logged
    assert not DECLARATIONS[kind]("rows", str, int, logged=False).is_logged
