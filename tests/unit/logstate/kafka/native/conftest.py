"""The extension module is optional: without it, there is nothing to test here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstate.kafka.extension import VARIABLE, why_not_loaded
from tests.unit.logstate.kafka.native.mock_cluster import TOPIC, mock_cluster

collect_ignore = ["test_failed_deliveries.py", "test_records.py"] if why_not_loaded() else []


@pytest.fixture(autouse=True)
def _enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mock_cluster(TOPIC) as found:
        yield found
