"""What is true of an Application when its start has returned."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.app.instance.states import ApplicationState
from logstate.contracts.serving import Serving
from tests.patience import until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted, recounted
from tests.unit.logstate.task.task_bench import topology_of


def test_the_state_says_that_it_has_started(tmp_path: Path) -> None:
    app = Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=unhurried({"in": 1, "out": 1}),
    )
    observer, has_returned = app._workers.observer, threading.Event()
    started = observer.started

    def is_awaited() -> bool:
        return has_returned.is_set() or bool(observer.changed._waiters)  # type: ignore[attr-defined]

    def step_by_step() -> None:
        """The group was joined, somebody is told of a change, and the state follows last."""
        observer.is_started = True
        until(is_awaited)
        with observer.changed:
            observer.changed.notify_all()
        until(is_awaited)
        started()

    observer.started = step_by_step  # type: ignore[method-assign]
    with app:
        has_returned.set()
        assert app.state in (ApplicationState.REBALANCING, ApplicationState.RUNNING)


def serving(path: Path) -> Application:
    return Application(
        topology_of(recounted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=path,
        cluster=unhurried({"in": 1, "out": 1}),
        serve=Serving(bind="127.0.0.1:0"),
    )


def assert_it_has_failed(app: Application, path: Path) -> None:
    assert app.state is ApplicationState.ERROR
    assert not app.is_alive
    assert not app.is_live()
    app.close()
    serving(path).close()  # the state directory is free


@pytest.mark.parametrize("name", ["app", "http", "directory-app", "snapshots-app", "watch-app"])
def test_a_start_without_a_thread_left_fails_with_that(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, start = serving(tmp_path), threading.Thread.start

    def full(thread: threading.Thread) -> None:
        if thread.name == f"logstate-{name}":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        app.start()
    assert_it_has_failed(app, tmp_path)


def test_a_start_that_cannot_answer_others_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("No module named 'starlette'")

    app = serving(tmp_path)
    monkeypatch.setattr(app, "asgi", missing)
    with pytest.raises(ImportError, match="starlette"):
        app.start()
    assert_it_has_failed(app, tmp_path)
