"""What is true of an Application when its start has returned."""

from __future__ import annotations

import threading
from pathlib import Path

from logstate.app import Application
from logstate.instance.states import ApplicationState
from tests.logstate.flows import counted
from tests.logstate.task.task_bench import topology_of
from tests.patience import until
from tests.unhurried import unhurried


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
