"""What is wished for while one worker follows another is what the next one does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.app.instance import restarts
from logstate.app.instance.states import ApplicationState
from logstate.app.local_worker import LocalWorker
from logstate.contracts.errors import BrokerError
from logstate.testing import Fault
from logstate.worker.worker import Worker
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.state_story import Story
from tests.unit.logstate.task.task_bench import topology_of

S = ApplicationState


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_wish_that_comes_while_the_next_worker_is_made_is_not_lost(
    is_paused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 1.0)
    cluster, story = unhurried({"in": 1, "out": 1}), Story()
    app = Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=5),
        cluster=cluster,
        uncaught_exception_handler="replace_worker",
    )
    workers, wish = app._workers, app.pause if is_paused else app.resume
    assert isinstance(workers, LocalWorker)
    new_worker = workers._new_worker

    def meanwhile() -> Worker:
        worker = new_worker()
        wish()
        return worker

    workers._new_worker = meanwhile  # type: ignore[method-assign]
    app.on_state_change(story)
    with app:
        story.until(S.RUNNING)
        if not is_paused:
            app.pause()
            story.until(S.PAUSED)
        cluster.faults.add(Fault("poll", BrokerError("not authorised")))
        story.until(S.PAUSED if is_paused else S.RUNNING)
    assert story.states.count(S.STARTING) == 2
