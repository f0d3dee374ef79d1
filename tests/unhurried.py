"""Instances in this process, on the machine's clock, that may all stand still for a while.

A cluster in memory takes a member for dead and a transaction for forgotten, and instances take each
other for dead, by the clock of the machine: a pause of this process would be a death in its story.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from logstate.directory import known_instances
from logstate.testing import FakeCluster
from tests.patience import PATIENCE_S

_LONG_MS = int(PATIENCE_S * 1_000)


def unhurried(topics: Mapping[str, int], **options: Any) -> FakeCluster:
    """A cluster that gives nobody up, and no transaction, before a test is given up."""
    defaults = {"session_timeout_ms": _LONG_MS, "transaction_timeout_ms": _LONG_MS}
    return FakeCluster(topics, **(defaults | options))


@pytest.fixture(scope="module", autouse=True)
def no_silence() -> Iterator[None]:
    """Instances that were heard of count until they say goodbye; for modules that import it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_instances, "MISSED_MAX", _LONG_MS)
        yield
