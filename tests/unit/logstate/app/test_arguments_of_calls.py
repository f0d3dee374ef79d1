"""What an Application's calls refuse before they do anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance.states import ApplicationState
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.contracts.errors import ConfigError
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of

DURATIONS: dict[str, Callable[[Application, Any], object]] = {
    "start": lambda app, given: app.start(timeout=given),
    "wait_until_running": lambda app, given: app.wait_until_running(given),
    "close": lambda app, given: app.close(timeout=given),
    "store": lambda app, given: app.store("counts", max_age=given),
    "is_ready": lambda app, given: app.is_ready(max_age=given),
    "remote_store": lambda app, given: app.remote_store("counts", timeout=given),
    "remote_store, max_age": lambda app, given: app.remote_store("counts", max_age=given),
    "create_cut": lambda app, given: app.create_cut("noon", keep=given),
    "snapshot": lambda app, given: app.snapshot("noon", timeout=given),
}
NONE_OF_THEM = [5, 0.5, "5s", True, float("nan"), timedelta(seconds=-1)]


@pytest.fixture
def app(tmp_path: Path) -> Application:
    return Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        serve="127.0.0.1:0",
        cluster=unhurried({"in": 1, "out": 1}),
    )


@pytest.mark.parametrize("given", NONE_OF_THEM, ids=repr)
@pytest.mark.parametrize("call", DURATIONS.values(), ids=DURATIONS)
def test_a_duration_that_is_none_is_refused_and_nothing_is_done(
    app: Application, call: Callable[[Application, Any], object], given: Any
) -> None:
    with pytest.raises(ConfigError, match=r"must be (a timedelta|at least)"):
        call(app, given)
    assert app.state is ApplicationState.CREATED
    assert not [one for one in threading.enumerate() if one.name == "logstate-app"]
    app.close()


@pytest.mark.parametrize("call", ["wait_until_running", "close"])
def test_there_is_no_waiting_for_ever(app: Application, call: str) -> None:
    with pytest.raises(ConfigError, match=r"timeout of .* must be a timedelta; got None"):
        DURATIONS[call](app, None)
    app.close()


@pytest.mark.parametrize("stores", ["counts", 5, iter(["counts"])])
def test_the_stores_of_a_cut_are_a_collection_of_names(stores: Any) -> None:
    with pytest.raises(ConfigError, match=r"stores of a named cut must be names"):
        create_cut("fake:9092", "app", "noon", stores=stores)
