"""What broker tests have in common."""

from __future__ import annotations

import pytest

from logstate.kafka.extension import VARIABLE, why_not_loaded

#: the extension may not have been built
_WAYS = ["client's objects"] if why_not_loaded() else ["extension", "client's objects"]


@pytest.fixture(params=_WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How records pass between librdkafka and Python: a test runs once for each way."""
    monkeypatch.setenv(VARIABLE, "1" if request.param == "extension" else "0")
    return str(request.param)
