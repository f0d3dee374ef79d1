"""The summary in the log of an instance with several worker processes."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unhurried import unhurried
from tests.unit.logstate.app.instance.thread_process import Rig
from tests.unit.logstate.flows import counted

KEYS = [f"k{number}" for number in range(40)]


def summaries(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.getMessage().startswith("in the last ")]


def processed(caplog: pytest.LogCaptureFixture) -> int:
    return sum(int(one.getMessage().partition(" s: ")[2].split()[0]) for one in summaries(caplog))


def test_the_instance_logs_one_summary_for_all_its_workers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    interval = timedelta(milliseconds=20)
    cluster = unhurried({"in": 4, "out": 1})
    for key in KEYS:
        cluster.produce("in", key.encode(), key.encode(), timestamp=1)
    with Rig(cluster, tmp_path, counted, log_summary_interval=interval) as rig:
        rig.until(lambda: "tasks: 4 running; 0 records behind" in caplog.text)
        rig.until(lambda: processed(caplog) == len(KEYS))
    assert {one.threadName for one in summaries(caplog)} == {"instance"}
