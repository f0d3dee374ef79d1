"""Whoever is told of a failure finds nothing of the application running any more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.changelog.directory import StateDirectory
from logstate.contracts.errors import DeserializationError
from tests.patience import until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of


def test_the_directory_is_free_for_another_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, early = threading.Event(), []
    close = StateDirectory.close

    def slow(directory: StateDirectory) -> None:
        early.append(told.wait(0.2))
        close(directory)

    monkeypatch.setattr(StateDirectory, "close", slow)
    cluster = unhurried({"in": 1, "out": 1})
    app = Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
    ).start()
    cluster.produce("in", b"\xff", b"v", timestamp=5)
    until(lambda: not app.is_alive)
    with pytest.raises(DeserializationError):
        app.wait_until_running()
    told.set()
    assert early == [False]
