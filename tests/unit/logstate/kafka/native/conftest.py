"""The extension module is optional: without it, there is nothing to test here."""

from __future__ import annotations

import pytest

from logstate.kafka.extension import VARIABLE, why_not_loaded

collect_ignore = ["test_records.py"] if why_not_loaded() else []


@pytest.fixture(autouse=True)
def _enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
