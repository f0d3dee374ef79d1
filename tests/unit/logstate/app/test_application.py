"""The Application on a fake cluster: its life in threads, its errors, what it shows."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.settings import Settings
from logstate.contracts.errors import (
    BrokerError,
    ConfigError,
    DeserializationError,
    LogstateError,
    StateDirectoryError,
    StoreUnavailableError,
    TopicError,
)
from logstate.restore.restore import RestoreProgress
from logstate.testing import FakeCluster, Fault
from logstate.topology import StreamsBuilder
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted, named, passed
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import outputs

MakeApp = Callable[..., Application]


@pytest.fixture
def cluster() -> FakeCluster:
    return unhurried({"in": 1, "out": 1})


@pytest.fixture
def make(cluster: FakeCluster, tmp_path: Path) -> Iterator[MakeApp]:
    """Applications that share a cluster; what a test leaves running is stopped."""
    made: list[Application] = []

    def make(
        declare: Callable[[StreamsBuilder], object] = counted,
        state: str = "state",
        **options: Any,
    ) -> Application:
        defaults = {
            "application_id": "app",
            "bootstrap": "fake:9092",
            "commit_interval": timedelta(milliseconds=5),
            "cluster": cluster,
        }
        app = Application(topology_of(declare), state_dir=tmp_path / state, **(defaults | options))
        made.append(app)
        return app

    yield make
    for app in made:
        app.stop()
        if app._thread is not None:
            app._thread.join(PATIENCE_S)
        app._workers.directory.close()


def send(cluster: FakeCluster, keys: str) -> None:
    for number, key in enumerate(keys):
        cluster.produce("in", key.encode(), key.encode(), timestamp=number + 1)


def processed(app: Application) -> int:
    tasks = [owned.task_or_none for owned in app._workers.observer.tasks.values()]
    return sum(task.processed.total() for task in tasks if task is not None)


def ended(app: Application) -> bool:
    assert app._thread is not None
    app._thread.join(PATIENCE_S)
    return not app.is_alive


# --- life -----------------------------------------------------------------------------------------


def test_an_application_counts_in_a_thread_of_its_own(cluster: FakeCluster, make: MakeApp) -> None:
    send(cluster, "abcab")
    with make() as app:
        app.wait_until_running()
        assert app.tasks() == {"0_0": "running"}
        assert app.is_alive
        cluster.wait_for_records("out", 5, PATIENCE_S)
    assert not app.is_alive
    assert sorted(outputs(cluster)) == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")]


def test_closing_commits_everything_that_was_processed(cluster: FakeCluster, make: MakeApp) -> None:
    app = make(commit_interval=timedelta(minutes=10)).start()
    app.wait_until_running()
    send(cluster, "abc")
    until(lambda: processed(app) == 3)
    assert outputs(cluster) == []
    app.close()
    assert len(outputs(cluster)) == 3
    assert cluster.group("app").members == {}
    assert cluster.transactions.open_transactions() == []


def test_an_application_runs_in_the_callers_thread_until_it_is_stopped(
    cluster: FakeCluster, make: MakeApp
) -> None:
    app = make()
    send(cluster, "abc")
    stopper = threading.Thread(
        target=lambda: (cluster.wait_for_records("out", 3, PATIENCE_S), app.stop()), daemon=True
    )
    stopper.start()
    app.run()
    stopper.join(PATIENCE_S)
    assert len(outputs(cluster)) == 3
    assert not app.is_alive
    app.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_cleanly_and_handlers_are_put_back(
    cluster: FakeCluster, make: MakeApp, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    app = make()
    send(cluster, "abc")
    sender = threading.Thread(
        target=lambda: (
            cluster.wait_for_records("out", 3, PATIENCE_S),
            os.kill(os.getpid(), number),
        ),
        daemon=True,
    )
    sender.start()
    app.run()
    sender.join(PATIENCE_S)
    assert signal.getsignal(number) is before
    assert cluster.group("app").members == {}


def test_signals_are_left_alone_on_request(make: MakeApp) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    app = make(passed)
    observer = app._workers.observer
    started = observer.started

    def check() -> None:
        seen.append(signal.getsignal(signal.SIGTERM))
        started()
        app.stop()

    observer.started = check  # type: ignore[method-assign]
    app.run(handle_signals=False)
    assert seen == [before]


def test_the_state_directory_is_released_at_the_end_and_kept_for_the_next_start(
    cluster: FakeCluster, make: MakeApp
) -> None:
    send(cluster, "abc")
    with make() as app:
        app.wait_until_running()
        cluster.wait_for_records("out", 3, PATIENCE_S)
    with make() as again:
        again.wait_until_running()
        assert again.transactional_id == app.transactional_id
        assert again.metrics_registry.total("restore_total") == 0
        assert {key: row.value for key, row in again.store("counts").all()} == dict.fromkeys(
            "abc", 1
        )


def test_a_lost_directory_costs_a_restore_and_nothing_else(
    cluster: FakeCluster, make: MakeApp
) -> None:
    send(cluster, "abc")
    progress: list[RestoreProgress] = []
    with make() as app:
        app.wait_until_running()
        cluster.wait_for_records("out", 3, PATIENCE_S)
    with make(state="another", restore_listener=progress.append) as again:
        again.wait_until_running()
        assert {key: row.value for key, row in again.store("counts").all()} == dict.fromkeys(
            "abc", 1
        )
    assert {p.task for p in progress} == {"0_0"}
    assert len(outputs(cluster)) == 3


def test_two_instances_share_the_work(make: MakeApp) -> None:
    cluster = unhurried({"in": 2, "out": 1})
    with make(state="one", cluster=cluster) as one, make(state="two", cluster=cluster) as two:
        until(lambda: [*one.tasks().values(), *two.tasks().values()] == ["running"] * 2)
        until(lambda: len(one.tasks()) == len(two.tasks()) == 1)
        assert one.transactional_id != two.transactional_id
        send(cluster, "abcdefabcdef")
        cluster.wait_for_records("out", 12, PATIENCE_S)
    assert sorted(outputs(cluster)) == sorted((k, n) for k in "abcdef" for n in "12")


# --- wrong use ------------------------------------------------------------------------------------


def test_every_problem_of_the_configuration_is_told_and_nothing_is_opened(
    make: MakeApp, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(bootstrap="", guarantee="twice", offset_reset="soon", kafka={"group.id": "x"})
    assert len(caught.value.problems) == 4
    assert not (tmp_path / "state").exists()


def test_a_second_instance_on_the_same_directory_is_refused(make: MakeApp) -> None:
    make()
    with pytest.raises(StateDirectoryError, match="is in use: slot 0 of application 'app'"):
        make()
    make(slot=1)


def test_clients_that_cannot_be_made_do_not_keep_the_directory_locked(
    make: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(Settings, "cluster")
        with pytest.raises(AttributeError, match="cluster"):
            make(cluster=None)
    make()


def test_an_application_runs_once(make: MakeApp) -> None:
    app = make(passed).start()
    with pytest.raises(LogstateError, match="started already; an Application runs once"):
        app.start()
    app.close()
    with pytest.raises(LogstateError, match="started already"):
        app.run()
    closed = make(passed)
    closed.close()
    with pytest.raises(LogstateError, match="started already"):
        closed.start()


def test_closing_is_allowed_before_the_start_and_twice(make: MakeApp) -> None:
    app = make(passed)
    app.close()
    app.close()
    make(passed).close()


def test_waiting_for_an_application_that_has_ended_is_an_error(make: MakeApp) -> None:
    app = make(passed).start()
    app.close()
    with pytest.raises(LogstateError, match="'app' has ended"):
        app.wait_until_running()


# --- errors ---------------------------------------------------------------------------------------


def test_a_start_that_fails_raises_its_cause_once_and_lets_go_of_everything(
    make: MakeApp,
) -> None:
    app = make(cluster=FakeCluster({}))
    with pytest.raises(TopicError, match="source topic 'in' does not exist"):
        app.start()
    assert not app.is_alive
    app.close()
    make().close()


def test_a_start_that_takes_too_long_stops_and_says_so(make: MakeApp) -> None:
    app = make(passed)
    release = threading.Event()
    started = app._workers.observer.started
    app._workers.observer.started = lambda: (release.wait(PATIENCE_S), started())  # type: ignore[method-assign]
    with pytest.raises(TimeoutError, match=r"did not start within 0:00:00\.010000 \(.*started"):
        app.start(timeout=timedelta(milliseconds=10))
    release.set()
    app.close()
    assert not app.is_alive


def test_waiting_too_long_tells_where_the_tasks_stand(make: MakeApp) -> None:
    app = make()
    with pytest.raises(TimeoutError, match="tasks are not assigned"):
        app.wait_until_running(timedelta(0))


def test_a_poison_record_ends_the_application_and_close_tells(
    cluster: FakeCluster, make: MakeApp
) -> None:
    app = make().start()
    cluster.produce("in", b"\xff", b"v", timestamp=5)
    assert ended(app)
    with pytest.raises(DeserializationError, match="topic 'in', partition 0, offset 0"):
        app.close()
    assert outputs(cluster) == []
    app.close()  # told already


def test_a_failure_of_the_worker_is_raised_by_run(cluster: FakeCluster, make: MakeApp) -> None:
    cluster.produce("in", b"\xff", b"v", timestamp=5)
    with pytest.raises(DeserializationError):
        make().run()


def test_whoever_waits_for_tasks_hears_of_a_failure(cluster: FakeCluster, make: MakeApp) -> None:
    cluster.faults.add(Fault("committed", BrokerError("not authorised for the group")))
    with pytest.raises(BrokerError, match="not authorised"):
        make().start().wait_until_running()


def test_an_error_in_the_with_block_is_raised_and_a_failed_close_is_a_note(
    cluster: FakeCluster, make: MakeApp
) -> None:
    cluster.produce("in", b"\xff", b"v", timestamp=5)
    app = make()
    with pytest.raises(ValueError, match="the user's") as caught, app:
        raise (ValueError if ended(app) else AssertionError)("the user's")
    (note,) = caught.value.__notes__
    assert note.startswith("and closing the application failed: the key of a record")


def test_an_error_in_the_with_block_still_closes_the_application(
    cluster: FakeCluster, make: MakeApp
) -> None:
    with pytest.raises(ValueError, match="the user's"), make(passed) as app:
        raise ValueError("the user's")
    assert not app.is_alive
    assert cluster.group("app").members == {}


# --- looking inside -------------------------------------------------------------------------------


def test_stores_are_read_from_any_thread_and_unknown_ones_named(
    cluster: FakeCluster, make: MakeApp
) -> None:
    send(cluster, "aab")
    app = make()
    with pytest.raises(StoreUnavailableError, match="the application has not started"):
        app.store("counts").get("a")
    with pytest.raises(StoreUnavailableError, match=r"no store 'count'; the topology has \['cou"):
        app.store("count")
    with app:
        app.wait_until_running()
        cluster.wait_for_records("out", 3, PATIENCE_S)
        store = app.store("counts")
        until(lambda: getattr(store.get("a"), "value", 0) == 2)
    with pytest.raises(StoreUnavailableError):
        list(store.all())


def test_a_global_store_can_be_queried(make: MakeApp) -> None:
    cluster = unhurried({"in": 1, "out": 1, "names": 2})
    cluster.produce("names", b"a", b"Ada", timestamp=1, partition=1)
    with make(named, cluster=cluster) as app:
        assert app.store("names").get("a").value == "Ada"


def test_metrics_are_those_of_the_live_registry(cluster: FakeCluster, make: MakeApp) -> None:
    send(cluster, "abc")
    with make() as app:
        app.wait_until_running()
        cluster.wait_for_records("out", 3, PATIENCE_S)
    assert app.metrics_registry.total("records_consumed_total") == 3
    assert app.metrics()["commit_total"]["series"][0]["value"] >= 1


def test_secrets_are_shown_neither_by_repr_nor_in_the_log(
    cluster: FakeCluster, make: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = {"sasl.username": "ada", "sasl.password": "hunter2"}
    cluster.faults.add(Fault("describe_topics", BrokerError("refused sasl.password=hunter2")))
    app = make(kafka=kafka)
    assert "hunter2" not in repr(app)
    assert repr(app).startswith("Application('app', bootstrap='fake:9092', kafka={")
    assert "sasl.password" in repr(app)
    with caplog.at_level(logging.DEBUG), pytest.raises(BrokerError):
        app.start()
    assert "application app stopped" in caplog.text
    assert "hunter2" not in caplog.text
