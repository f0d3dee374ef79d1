"""The soak for some seconds, to keep its command alive: what grows shows only in an hour."""

from __future__ import annotations

import json
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.soak.__main__ import soak
from tests.campaigns.soak.slopes import BOUNDS


def test_a_short_soak_measures_everything_that_has_a_bound(tmp_path: Path) -> None:
    told: list[str] = []
    with LocalBroker.start() as broker:
        soak(
            tmp_path,
            broker.bootstrap,
            seconds=3,
            read_every_s=1,
            sample_every_s=0.5,
            report=told.append,
        )
    samples = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(samples) >= 3
    assert json.loads(samples[-1])[1].keys() >= BOUNDS.keys()
    outputs = told[-1]
    assert "'counts': 0" not in outputs
    log = (tmp_path / "log").read_text(encoding="utf-8", errors="replace")
    assert "queries answered, 0 failed" in told[-2], log[-3_000:]
