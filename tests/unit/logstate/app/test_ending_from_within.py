"""Ends that are asked for in another thread than the one that waits, and in the worker's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance.states import ApplicationState
from logstate.contracts.errors import LogstateError, ProcessingError
from logstate.restore.restore import RestoreProgress
from logstate.testing import FakeCluster
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of

S = ApplicationState


@pytest.fixture
def cluster() -> FakeCluster:
    return unhurried({"in": 1, "out": 1})


def application(
    topology: Topology, cluster: FakeCluster, state_dir: Path, **settings: Any
) -> Application:
    return Application(
        topology,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=5),
        cluster=cluster,
        **settings,
    )


def calling(call: Callable[[], object]) -> Topology:
    """A topology with a function that makes this call for every record."""

    class Calls(Processor[str, str, str, str]):
        def process(self, record: Any) -> None:
            call()
            self.context.forward(record)

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Calls, key=str, value=str).to("out")

    return topology_of(declare)


def running(app: Application) -> threading.Thread:
    """``run`` in a thread, as a service has it that does something else in its main one."""
    thread = threading.Thread(target=app.run, kwargs={"handle_signals": False})
    thread.start()
    app.wait_until_running()
    return thread


def test_close_waits_for_a_run_in_another_thread_before_the_directory_is_free(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    entered, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        goes_on.wait(PATIENCE_S)

    app = application(calling(wait), cluster, tmp_path)
    thread = running(app)
    cluster.produce("in", b"k", b"v", timestamp=1)
    assert entered.wait(PATIENCE_S)
    closing = threading.Thread(target=app.close)
    closing.start()
    until(lambda: app.state is S.STOPPING or app._workers._worker.is_stopping)  # type: ignore[union-attr]
    with pytest.raises(LogstateError, match="is in use"):
        application(topology_of(counted), cluster, tmp_path)
    assert closing.is_alive()
    goes_on.set()
    closing.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert app.state is S.STOPPED
    assert [r.value() for r in cluster.records("out")] == [b"v"]  # committed before close returned
    application(topology_of(counted), cluster, tmp_path).close()


def test_close_that_does_not_see_the_end_of_a_run_says_so_and_frees_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logstate.app.application._KILLED_S", 0.0)
    goes_on = threading.Event()
    entered = threading.Event()
    app = application(calling(lambda: (entered.set(), goes_on.wait(PATIENCE_S))), cluster, tmp_path)
    thread = running(app)
    cluster.produce("in", b"k", b"v", timestamp=1)
    assert entered.wait(PATIENCE_S)
    with pytest.raises(TimeoutError, match="did not end within"):
        app.close(timeout=timedelta(milliseconds=1))
    with pytest.raises(LogstateError, match="is in use"):
        application(topology_of(counted), cluster, tmp_path)
    goes_on.set()
    thread.join(PATIENCE_S)
    app.close()


def test_what_ended_a_run_in_another_thread_is_raised_there_and_not_by_close(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    def fail() -> None:
        raise OSError("away")

    app = application(calling(fail), cluster, tmp_path)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            app.run(handle_signals=False)
        except ProcessingError as exc:
            raised.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    cluster.produce("in", b"k", b"v", timestamp=1)
    until(lambda: app.state is S.ERROR)
    app.close()
    thread.join(PATIENCE_S)
    assert ["away" in str(exc) for exc in raised] == [True]


def test_close_in_a_function_asks_and_the_record_is_finished(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    apps: list[Application] = []
    app = application(
        calling(lambda: apps[0].close(timeout=timedelta(minutes=1))), cluster, tmp_path
    )
    apps.append(app)
    app.start()
    cluster.produce("in", b"k", b"v", timestamp=1)
    until(lambda: not app.is_alive)
    app.close()
    assert app.state is S.STOPPED
    assert [r.value() for r in cluster.records("out")] == [b"v"]
    assert "close() of application app was called in the thread that runs it" in caplog.text


def test_stop_in_a_function_ends_in_order(cluster: FakeCluster, tmp_path: Path) -> None:
    apps: list[Application] = []
    app = application(calling(lambda: apps[0].stop(leave_group=True)), cluster, tmp_path)
    apps.append(app)
    running(app)
    cluster.produce("in", b"k", b"v", timestamp=1)
    until(lambda: not app.is_alive)
    app.close()
    assert app.state is S.STOPPED
    assert [r.value() for r in cluster.records("out")] == [b"v"]


def test_close_in_a_listener_asks(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = application(topology_of(counted), cluster, tmp_path)

    @app.on_state_change
    def close_when_running(old: S, new: S) -> None:
        if new is S.RUNNING:
            app.close()

    app.start()
    until(lambda: not app.is_alive)
    app.close()
    assert app.state is S.STOPPED
    assert "a state listener failed" not in caplog.text


def test_waiting_for_oneself_is_refused_at_once(cluster: FakeCluster, tmp_path: Path) -> None:
    apps: list[Application] = []
    app = application(
        calling(lambda: apps[0].wait_until_running(timedelta(minutes=1))), cluster, tmp_path
    )
    apps.append(app)
    app.start()
    cluster.produce("in", b"k", b"v", timestamp=1)
    until(lambda: app.state is S.ERROR)
    with pytest.raises(ProcessingError, match="cannot continue until that returns"):
        app.close()


def test_a_restore_listener_cannot_wait_for_the_restore(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for key in "abc":
        cluster.produce("in", key.encode(), b"v", timestamp=1)
    with application(topology_of(counted), cluster, tmp_path / "one"):
        cluster.wait_for_records("out", 3, PATIENCE_S)
    apps: list[Application] = []

    def wait(progress: RestoreProgress) -> None:
        apps[0].wait_until_running()

    apps.append(application(topology_of(counted), cluster, tmp_path / "two", restore_listener=wait))
    with apps[0] as app:
        app.wait_until_running()
    assert "the restore listener test_a_restore_listener_cannot" in caplog.text
