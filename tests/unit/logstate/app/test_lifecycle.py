"""The life of an Application: its states, pausing, replaced workers, its local state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance import restarts
from logstate.app.instance.states import ApplicationState
from logstate.contracts.errors import (
    BrokerError,
    ConfigError,
    LogstateError,
    ProcessingError,
    StateDirectoryError,
)
from logstate.restore.restore import RestoreProgress
from logstate.testing import FakeCluster, Fault
from logstate.topology import StreamsBuilder
from logstate.worker.task_lag import TaskLag
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.state_story import Story
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import outputs

S = ApplicationState


MakeApp = Callable[..., Application]
Declare = Callable[[StreamsBuilder], object]


@pytest.fixture
def cluster() -> FakeCluster:
    return unhurried({"in": 1, "out": 1})


@pytest.fixture
def make(cluster: FakeCluster, tmp_path: Path) -> Iterator[MakeApp]:
    made: list[Application] = []

    def make(declare: Callable[[StreamsBuilder], object] = counted, **options: Any) -> Application:
        defaults: dict[str, Any] = {
            "application_id": "app",
            "bootstrap": "fake:9092",
            "state_dir": tmp_path / "state",
            "commit_interval": timedelta(milliseconds=5),
            "cluster": cluster,
        }
        app = Application(topology_of(declare), **(defaults | options))
        made.append(app)
        return app

    yield make
    for app in made:
        app.stop()
        if app._thread is not None:
            app._thread.join(PATIENCE_S)
        app._workers.release()


def send(cluster: FakeCluster, keys: str) -> None:
    for number, key in enumerate(keys):
        cluster.produce("in", key.encode(), key.encode(), timestamp=number + 1)


# --- states ---------------------------------------------------------------------------------------


def test_a_listener_is_told_the_whole_life(make: MakeApp) -> None:
    app, story = make(), Story()
    assert app.on_state_change(story) is story
    assert app.state is S.CREATED
    with app:
        story.until(S.RUNNING)
        assert app.state is S.RUNNING
    assert app.state is S.STOPPED
    assert story.states == [S.STARTING, S.REBALANCING, S.RUNNING, S.STOPPING, S.STOPPED]
    assert story.threads == {"MainThread", "logstate-app"}


def test_an_application_that_was_never_started_is_stopped_by_close(make: MakeApp) -> None:
    app, story = make(), Story()
    app.on_state_change(story)
    app.close()
    app.close()
    assert story.told == [(S.CREATED, S.STOPPED)]


def test_a_failure_ends_in_error_and_not_in_a_run_without_tasks(
    cluster: FakeCluster, make: MakeApp
) -> None:
    app, story = make(), Story()
    app.on_state_change(story)
    app.start()
    story.until(S.RUNNING)
    cluster.produce("in", b"\xff", b"v", timestamp=5)
    story.until(S.ERROR)
    assert story.states == [S.STARTING, S.REBALANCING, S.RUNNING, S.ERROR]
    with pytest.raises(LogstateError, match="offset 0"):
        app.close()
    assert app.state is S.ERROR


def test_a_start_that_fails_is_an_error(make: MakeApp) -> None:
    app = make(cluster=FakeCluster({}))
    with pytest.raises(LogstateError, match="does not exist"):
        app.start()
    assert app.state is S.ERROR


def test_a_listener_that_raises_does_not_hurt_the_worker(
    cluster: FakeCluster, make: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = make()

    @app.on_state_change
    def fail(old: S, new: S) -> None:
        raise OSError("no pager")

    with app:
        send(cluster, "abc")
        cluster.wait_for_records("out", 3, PATIENCE_S)
        until(lambda: app.state is S.RUNNING)
    assert app.state is S.STOPPED
    assert caplog.text.count("a state listener failed") == 5


def test_it_lives_in_asyncio_without_holding_the_loop(cluster: FakeCluster, make: MakeApp) -> None:
    async def service() -> tuple[S, S]:
        async with make() as app:
            inside = app.state
            send(cluster, "abc")
            await asyncio.to_thread(cluster.wait_for_records, "out", 3, PATIENCE_S)
        return inside, app.state

    inside, after = asyncio.run(service())
    assert inside in (S.REBALANCING, S.RUNNING)
    assert after is S.STOPPED


def test_a_start_that_is_cancelled_stops_the_application(
    cluster: FakeCluster, make: MakeApp
) -> None:
    cluster.away = "broker-1:9092: Connection refused"
    app = make()

    async def impatient() -> None:
        await asyncio.wait_for(app.__aenter__(), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert app._thread is not None
    app._thread.join(PATIENCE_S)
    assert app.state is S.STOPPED


# --- pausing --------------------------------------------------------------------------------------


def test_paused_it_processes_nothing_and_resumed_it_goes_on(
    cluster: FakeCluster, make: MakeApp
) -> None:
    app, story = make(), Story()
    app.on_state_change(story)
    with app:
        story.until(S.RUNNING)
        app.pause()
        story.until(S.PAUSED)
        send(cluster, "abc")
        assert outputs(cluster) == []
        assert app.is_live()
        assert app.is_ready()
        app.resume()
        cluster.wait_for_records("out", 3, PATIENCE_S)
        story.until(S.RUNNING)


def test_it_may_be_paused_before_it_starts_and_ends_paused(
    cluster: FakeCluster, make: MakeApp
) -> None:
    app, story = make(), Story()
    app.on_state_change(story)
    app.pause()
    send(cluster, "abc")
    with app:
        story.until(S.PAUSED)
    assert S.RUNNING not in story.states
    assert story.states[-2:] == [S.STOPPING, S.STOPPED]
    assert outputs(cluster) == []


# --- replaced workers -----------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait before a replacement."""
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 0.0)


class Flaky:
    """A mapper that fails at a value so many times."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def declare(self, builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str).map_values(self.passed, value=str)
        counts = stream.group_by_key().count(store="counts").to_stream()
        counts.map_values(str, value=str).to("out")

    def passed(self, value: str) -> str:
        if value == "x" and self.left:
            self.left -= 1
            raise OSError("the service is away")
        return value


def test_a_worker_that_failed_is_replaced_and_nothing_is_lost_or_doubled(
    cluster: FakeCluster, make: MakeApp, at_once: None
) -> None:
    asked: list[Exception] = []

    def replace(failure: Exception) -> str:
        asked.append(failure)
        return "replace_worker"

    app, story = make(Flaky(2).declare, uncaught_exception_handler=replace), Story()
    app.on_state_change(story)
    with app:
        send(cluster, "axa")
        cluster.wait_for_records("out", 3, PATIENCE_S)
        story.until(S.RUNNING)
        # What is committed can be read a moment later.
        store = app.store("counts")
        until(lambda: {key: row.value for key, row in store.all()} == {"a": 2, "x": 1})
    assert [type(failure) for failure in asked] == [ProcessingError] * 2
    assert sorted(outputs(cluster)) == [("a", "1"), ("a", "2"), ("x", "1")]
    assert story.states.count(S.STARTING) == 3
    assert S.ERROR not in story.states


def test_a_store_that_was_handed_out_before_reads_the_new_worker(
    cluster: FakeCluster, make: MakeApp, at_once: None
) -> None:
    with make(Flaky(1).declare, uncaught_exception_handler="replace_worker") as app:
        app.wait_until_running()
        store = app.store("counts")
        send(cluster, "axa")
        cluster.wait_for_records("out", 3, PATIENCE_S)
        app.wait_until_running()
        until(lambda: getattr(store.get("a"), "value", 0) == 2)


def test_it_stays_paused_over_a_replacement(
    cluster: FakeCluster, make: MakeApp, at_once: None
) -> None:
    cluster.faults.add(Fault("committed", BrokerError("not authorised")))
    app, story = make(uncaught_exception_handler="replace_worker"), Story()
    app.on_state_change(story)
    app.pause()
    with app:
        story.until(S.PAUSED)
    assert story.states.count(S.STARTING) == 2


def test_a_worker_that_fails_again_and_again_is_given_up(
    cluster: FakeCluster, make: MakeApp, at_once: None
) -> None:
    app = make(Flaky(99).declare, uncaught_exception_handler="replace_worker").start()
    send(cluster, "x")
    assert app._thread is not None
    app._thread.join(PATIENCE_S)
    assert app.state is S.ERROR
    with pytest.raises(ProcessingError) as caught:
        app.close()
    assert "it ended 13 times within 10 minutes" in caught.value.__notes__[-1]


def test_a_stop_while_a_replacement_is_awaited_ends_it(
    cluster: FakeCluster, make: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 3_600_000.0)
    app, story = make(Flaky(1).declare, uncaught_exception_handler="replace_worker"), Story()
    app.on_state_change(story)
    app.start()
    story.until(S.RUNNING)
    send(cluster, "x")
    story.until(S.STARTING)
    app.close(timeout=timedelta(seconds=PATIENCE_S))
    assert app.state is S.STOPPED


@pytest.mark.parametrize("answer", ["shrug", None])
def test_a_handler_that_answers_nonsense_or_raises_stops_the_instance(
    cluster: FakeCluster, make: MakeApp, caplog: pytest.LogCaptureFixture, answer: str | None
) -> None:
    def handler(failure: Exception) -> Any:
        if answer is None:
            raise OSError("no pager")
        return answer

    app = make(Flaky(1).declare, uncaught_exception_handler=handler).start()
    send(cluster, "x")
    assert app._thread is not None
    app._thread.join(PATIENCE_S)
    assert app.state is S.ERROR
    assert "the instance stops" in caplog.text


def test_an_instance_that_is_a_thread_says_how_it_could_have_more_workers(make: MakeApp) -> None:
    app = make()
    for change in (app.add_worker, app.remove_worker):
        with pytest.raises(ConfigError, match="start it with workers=2 or more"):
            change()


def test_an_unknown_response_is_told_before_anything_is_opened(
    make: MakeApp, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="uncaught_exception_handler must be 'stop_instance'"):
        make(uncaught_exception_handler="restart")
    assert not (tmp_path / "state").exists()


# --- local state ----------------------------------------------------------------------------------


def test_cleaned_up_it_restores_everything_at_the_next_start(
    cluster: FakeCluster, make: MakeApp, tmp_path: Path
) -> None:
    send(cluster, "abc")
    with make() as app:
        cluster.wait_for_records("out", 3, PATIENCE_S)
        with pytest.raises(LogstateError, match=r"'app' is (running|rebalancing); its local state"):
            app.clean_up()
    assert (tmp_path / "state" / "app" / "0_0").is_dir()
    app.clean_up()
    assert not (tmp_path / "state" / "app" / "0_0").exists()
    told: list[RestoreProgress] = []
    with make(restore_listener=told.append) as again:
        again.wait_until_running()
        assert {key: row.value for key, row in again.store("counts").all()} == dict.fromkeys(
            "abc", 1
        )
    assert (told[-1].is_done, told[-1].restored_records, told[-1].remaining_s) == (True, 3, 0.0)


def test_before_the_start_it_may_be_cleaned_up_too(
    cluster: FakeCluster, make: MakeApp, tmp_path: Path
) -> None:
    send(cluster, "abc")
    with make():
        cluster.wait_for_records("out", 3, PATIENCE_S)
    again = make()
    again.clean_up()
    assert not (tmp_path / "state" / "app" / "0_0").exists()
    again.start().wait_until_running()


def test_what_another_instance_uses_is_not_cleaned_up(
    cluster: FakeCluster, make: MakeApp, tmp_path: Path
) -> None:
    with make() as app:
        app.wait_until_running()
        other = make(slot=1)
        with pytest.raises(StateDirectoryError, match="slot 0 of application 'app' is held"):
            other.clean_up()
        assert (tmp_path / "state" / "app" / "0_0").is_dir()


# --- progress -------------------------------------------------------------------------------------


def test_the_lag_of_a_task_is_known(cluster: FakeCluster, make: MakeApp) -> None:
    app, story = make(), Story()
    app.on_state_change(story)
    with app:
        send(cluster, "abc")
        cluster.wait_for_records("out", 3, PATIENCE_S)
        story.until(S.RUNNING)
        until(lambda: app.lags() == {"0_0": TaskLag("running", 0, 0)})
