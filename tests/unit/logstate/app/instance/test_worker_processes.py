"""Workers as processes of their own: together they are one instance."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.instance import restarts
from logstate.app.instance.forwarded_logs import ForwardingHandler, log_again
from logstate.app.instance.states import ApplicationState
from logstate.contracts.errors import ConfigError, LogstateError, ProcessingError, StoreError
from logstate.contracts.errors import StoreUnavailableError as Unavailable
from logstate.metrics.catalogue import COMMITS
from logstate.queries.requests import Pages
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, TumblingWindows
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.logstate.app.instance.thread_process import Rig
from tests.unit.logstate.flows import counted, named
from tests.unit.logstate.worker.worker_rig import outputs

S = ApplicationState
KEYS = [f"k{number}" for number in range(40)]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly a wait before a restart."""
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 1.0)


@pytest.fixture
def cluster() -> FakeCluster:
    return unhurried({"in": 4, "out": 1})


def send(cluster: FakeCluster, keys: list[str]) -> None:
    for key in keys:
        cluster.produce("in", key.encode(), key.encode(), timestamp=1)


def told_states(rig: Rig) -> list[S]:
    told: list[S] = []
    rig.lifecycle.listen(lambda _, new: told.append(new))
    return told


def stored(rig: Rig) -> dict[str, int]:
    return {key: row.value for key, row in rig.workers.stores.named("counts", None).all()}


def until_stored(rig: Rig, count: int) -> None:
    """What is committed can be read a moment later."""

    def is_stored() -> bool:
        try:
            return stored(rig) == dict.fromkeys(KEYS, count)
        except Unavailable:
            return False

    until(is_stored)


def test_the_workers_share_the_tasks_and_are_one_instance(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    rig = Rig(cluster, tmp_path, counted)
    states = told_states(rig)
    with rig:
        rig.until_running()
        send(cluster, KEYS * 2)
        cluster.wait_for_records("out", 80, PATIENCE_S)
        rig.until(lambda: rig.lifecycle.state is S.RUNNING)
        assert rig.workers.tasks() == dict.fromkeys(["0_0", "0_1", "0_2", "0_3"], "running")
        assert all(told.report.tasks for told in rig.workers._statuses.values())
        assert len(set(rig.workers.transactional_ids)) == 2
        assert rig.workers.readiness()
        assert rig.workers.liveness()
    assert states[0] is S.STARTING
    assert states[-2:] == [S.STOPPING, S.STOPPED]
    assert rig.workers.failure is None
    assert sorted(outputs(cluster)) == sorted((key, n) for key in KEYS for n in "12")


def test_workers_come_and_go_and_the_instance_is_ready_all_the_while(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    rig = Rig(cluster, tmp_path, counted)
    with rig:
        rig.until_running()
        assert rig.workers.scale(2) == 4
        assert rig.workers.readiness()
        tasks = lambda: [len(told.report.tasks) for told in rig.workers._statuses.values()]  # noqa: E731
        rig.until(lambda: tasks() == [1, 1, 1, 1] and rig.workers.are_tasks_running)
        send(cluster, KEYS)
        cluster.wait_for_records("out", 40, PATIENCE_S)
        assert rig.workers.scale(-3) == 1
        rig.until(lambda: tasks() == [4] and rig.workers.are_tasks_running)
        assert rig.workers.readiness()
        send(cluster, KEYS)
        cluster.wait_for_records("out", 80, PATIENCE_S)
        with pytest.raises(ConfigError, match="the last worker cannot be removed"):
            rig.workers.scale(-1)
    assert rig.workers.failure is None
    assert dict(rig.lives) == dict.fromkeys(range(4), 1)
    assert sorted(outputs(cluster)) == sorted((key, n) for key in KEYS for n in "12")


# --- reading --------------------------------------------------------------------------------------


@pytest.fixture
def full(cluster: FakeCluster, tmp_path: Path) -> Any:
    """Two workers that have counted every key once."""
    send(cluster, KEYS)
    with Rig(cluster, tmp_path, counted) as rig:
        cluster.wait_for_records("out", len(KEYS), PATIENCE_S)
        rig.until_running()
        until_stored(rig, 1)
        yield rig


def test_a_key_is_read_from_the_worker_that_has_it(full: Rig) -> None:
    store = full.workers.stores.named("counts", None)
    assert {key: store.get(key).value for key in KEYS} == dict.fromkeys(KEYS, 1)
    assert store.get("unknown") is None
    assert store.partitions == [0, 1, 2, 3]
    until(lambda: store.age < timedelta(seconds=PATIENCE_S))


def test_what_goes_over_all_partitions_goes_over_all_workers_in_their_order(full: Rig) -> None:
    assert stored(full) == dict.fromkeys(KEYS, 1)
    store = full.workers.stores.named("counts", None)
    partitions = [store._stores.partition_for(key.encode(), 4) for key, _ in store.all()]
    assert partitions == sorted(partitions)
    assert [key for key, _ in store.range("k1", "k1")] == ["k1"]


def test_rows_come_in_parts_and_what_is_not_wanted_any_more_is_let_go(
    full: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pages, "rows_max", property(lambda _: 3), raising=False)
    assert stored(full) == dict.fromkeys(KEYS, 1)
    rows = full.workers.stores.named("counts", None).all()
    next(rows)
    rows.close()  # type: ignore[attr-defined]


def test_errors_are_those_of_a_store_in_this_process(full: Rig) -> None:
    store = full.workers.stores.named("counts", None)
    with pytest.raises(StoreError, match=r"timestamped_key_value store and has no fetch\(\)"):
        store.fetch("k1")
    with pytest.raises(Unavailable, match="there is no store 'other'; the topology has"):
        full.workers.stores.named("other", None)
    with pytest.raises(Unavailable, match=r"max_age allows 0 s"):
        full.workers.stores.named("counts", timedelta(0)).get("k1")
    with pytest.raises(
        Unavailable, match=r"partition 9 is not on this instance, which has \w+ \[0"
    ):
        store.get("k1", partition=9)


def test_after_the_end_nothing_is_read(full: Rig) -> None:
    store = full.workers.stores.named("counts", None)
    full.workers.stop()
    full.thread.join(PATIENCE_S)
    with pytest.raises(Unavailable, match="'app' has ended, because it was stopped"):
        store.get("k1")
    with pytest.raises(Unavailable, match="'app' has ended"):
        list(store.all())


def test_windows_are_read_with_their_arguments(cluster: FakeCluster, tmp_path: Path) -> None:
    def windowed(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        windows = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(0))
        counts = grouped.windowed_by(windows).count(store="counts").to_stream()
        counts.map(lambda key, value: (key.key, str(value)), key=str, value=str).to("out")

    with Rig(cluster, tmp_path, windowed) as rig:
        send(cluster, KEYS)
        cluster.wait_for_records("out", len(KEYS), PATIENCE_S)
        rig.until_running()
        store = rig.workers.stores.named("counts", None)
        until(lambda: getattr(store.fetch("k1", 0), "value", 0) == 1)
        assert [start for start, _ in store.fetch_range("k1", 0, 5_000, reverse=True)] == [0]


def test_global_stores_are_read_from_any_worker(tmp_path: Path) -> None:
    cluster = unhurried({"in": 2, "names": 1, "out": 1})
    cluster.produce("names", b"a", b"Ada", timestamp=1)
    with Rig(cluster, tmp_path, named) as rig:
        rig.until_running()
        assert rig.workers.stores.named("names", None).get("a").value == "Ada"
        assert len(list(rig.workers.stores.named("names", None).all())) == 1


# --- failing --------------------------------------------------------------------------------------


def test_a_killed_worker_starts_again_and_nothing_is_lost_or_doubled(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Rig(cluster, tmp_path, counted) as rig:
        rig.until_running()
        send(cluster, KEYS)
        cluster.wait_for_records("out", 40, PATIENCE_S)
        rig.alive[1].kill()
        send(cluster, KEYS)
        rig.until(lambda: rig.lives[1] == 2)
        cluster.wait_for_records("out", 80, PATIENCE_S)
        rig.until_running()
        until_stored(rig, 2)
        assert rig.lives == {0: 1, 1: 2}
    assert sorted(outputs(cluster)) == sorted((key, n) for key in KEYS for n in "12")
    assert "worker 1 was killed by SIGKILL" in caplog.text


def test_a_worker_that_ends_again_and_again_ends_the_instance_with_the_reason(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with Rig(cluster, tmp_path, counted) as rig:
        for life in range(1, restarts.RESTARTS_MAX + 2):
            rig.until(lambda life=life: rig.lives[1] == life)
            rig.alive[1].kill()
        rig.thread.join(PATIENCE_S)
    assert rig.lifecycle.state is S.ERROR
    assert isinstance(rig.workers.failure, LogstateError)
    for part in ("worker 1 was killed by SIGKILL", "ended 13 times within 10 minutes", "memory"):
        assert part in str(rig.workers.failure)


class Fails:
    """A mapper that fails at "x" so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def declare(self, builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str).map_values(self.passed, value=str)
        counts = stream.group_by_key().count(store="counts").to_stream()
        counts.map_values(str, value=str).to("out")

    def passed(self, value: str) -> str:
        if value == "x" and self.left:
            self.left -= 1
            raise OSError("the service is away")
        return value


def test_an_exception_of_a_worker_ends_all_of_them_and_is_raised(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with Rig(cluster, tmp_path, Fails(1).declare) as rig:
        rig.until_running()
        send(cluster, [*KEYS, "x"])
        rig.thread.join(PATIENCE_S)
    assert rig.lifecycle.state is S.ERROR
    assert isinstance(rig.workers.failure, ProcessingError)
    notes = "".join(rig.workers.failure.__notes__)
    assert "in a worker process:" in notes
    assert "the service is away" in notes


def test_the_handler_is_asked_here_and_may_have_the_worker_replaced(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    asked: list[Exception] = []

    def replace_it(failure: Exception) -> str:
        asked.append(failure)
        return "replace_worker"

    with Rig(cluster, tmp_path, Fails(1).declare, uncaught_exception_handler=replace_it) as rig:
        rig.until_running()
        send(cluster, [*KEYS, "x"])
        cluster.wait_for_records("out", 41, PATIENCE_S)
        rig.until(lambda: sum(rig.lives.values()) == 3)
        rig.until_running()
    assert [type(failure) for failure in asked] == [ProcessingError]
    assert sorted(outputs(cluster)) == sorted((key, "1") for key in [*KEYS, "x"])


def test_a_start_that_fails_is_told_by_its_cause(tmp_path: Path) -> None:
    with Rig(FakeCluster({}), tmp_path, counted) as rig:
        rig.thread.join(PATIENCE_S)
    assert "source topic 'in' does not exist" in str(rig.workers.failure)
    assert rig.lifecycle.state is S.ERROR


# --- pausing and stopping -------------------------------------------------------------------------


def test_a_pause_reaches_every_worker_and_those_that_start_later(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with Rig(cluster, tmp_path, counted) as rig:
        rig.until_running()
        rig.workers.pause(True)
        rig.until(lambda: rig.lifecycle.state is S.PAUSED)
        rig.alive[0].kill()
        rig.until(lambda: rig.lives[0] == 2)
        send(cluster, KEYS)
        rig.until(lambda: rig.lifecycle.state is S.PAUSED)
        assert outputs(cluster) == []
        rig.workers.pause(False)
        cluster.wait_for_records("out", 40, PATIENCE_S)


def test_all_are_drained_at_the_end(cluster: FakeCluster, tmp_path: Path) -> None:
    with Rig(cluster, tmp_path, counted, commit_interval=timedelta(minutes=9)) as rig:
        rig.until_running()
        send(cluster, KEYS)
        rig.until(lambda: rig.workers.metrics.total("records_consumed_total") >= len(KEYS))
        assert outputs(cluster) == []
    assert len(outputs(cluster)) == len(KEYS)
    assert cluster.group("app").members == {}
    assert rig.workers._supervisor.killed == []


def test_a_worker_that_does_not_end_in_time_is_killed(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(cluster, tmp_path, counted)
    with rig:
        rig.until_running()
        rig.workers._processes[1].channel.send = lambda *_: None  # type: ignore[method-assign]
        rig.workers.stop(timedelta(milliseconds=500))
        rig.thread.join(PATIENCE_S)
    assert 1 in rig.workers._supervisor.killed  # on a busy machine the other one too
    assert rig.lifecycle.state is S.STOPPED
    assert "worker 1 did not end in time and is killed" in caplog.text


# --- figures, logs --------------------------------------------------------------------------------


def test_metrics_are_one_view_that_does_not_go_down_with_a_worker(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with Rig(cluster, tmp_path, counted) as rig:
        rig.until_running()
        send(cluster, KEYS)
        metrics = rig.workers.metrics
        rig.until(lambda: metrics.total("records_consumed_total") >= len(KEYS))
        rig.until(lambda: {labels for labels, _ in metrics.series(COMMITS)} == {("0",), ("1",)})
        rig.alive[1].kill()
        rig.until(lambda: rig.lives[1] == 2)
        assert metrics.total("records_consumed_total") >= len(KEYS)
        rig.until(lambda: metrics.total("worker_alive") == 2)


def test_restores_are_told_to_the_listener_of_the_instance(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    send(cluster, KEYS)
    with Rig(cluster, tmp_path / "one", counted):
        cluster.wait_for_records("out", len(KEYS), PATIENCE_S)
    with Rig(cluster, tmp_path / "another", counted) as rig:
        rig.until_running()
        rig.until(lambda: rig.restored)
    assert {progress.store for progress in rig.restored} == {"counts"}


def test_lags_are_known_of_every_task(cluster: FakeCluster, tmp_path: Path) -> None:
    with Rig(cluster, tmp_path, counted) as rig:
        rig.until_running()
        assert {task: lag.restore_records for task, lag in rig.workers.lags().items()} == {
            f"0_{partition}": 0 for partition in range(4)
        }


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_lines_of_a_worker_are_logged_here_as_its_lines(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[Any] = []

    class Sent:
        def send_if_room(self, kind: str, fields: Any) -> None:
            lines.append(fields)

    sent = Sent()
    handler = ForwardingHandler(sent)  # type: ignore[arg-type]
    logger = logging.getLogger("tests.of.a.worker")
    handler.emit(logger.makeRecord(logger.name, level, "file.py", 7, "counted %d", (3,), None))
    with caplog.at_level(logging.WARNING, logger="tests.of.a.worker"):
        log_again(2, lines[-1])
    assert caplog.messages == (["worker 2: counted 3"] if level == logging.WARNING else [])
