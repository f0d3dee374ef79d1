"""A whole application while the brokers are away: reads, starts, health, and what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.contracts.clients import Rebalance
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import BrokerError, StoreUnavailableError
from logstate.contracts.records import TopicPartition
from logstate.queries.reader import Freshness, LocalStores
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from logstate.topics.placement import places_of
from logstate.worker.watchdog import Watchdog
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.logstate.flows import counted
from tests.unit.logstate.plans import topology_of
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

REFUSED = "broker-1:9092: Connection refused"


class Served:
    """A worker on a manual clock with the watch beside it, and its store as it is handed out."""

    def __init__(self) -> None:
        self.cluster = cluster_of({"in": 1, "out": 1})
        self.rig = WorkerRig(self.cluster, counted)
        worker, observer = self.rig.worker, self.rig.observer
        self.watch = Watchdog(self.cluster.probe(), self.clock, observer, worker)
        topology = worker._starting.topology
        self.stores = LocalStores(
            places_of(topology, "app"),
            "app",
            lambda: observer.tasks,
            lambda number: worker.task_count(topology.sub_topologies[number]),
            Freshness(self.clock.monotonic_ms, lambda: observer.away_since_ms),
        )

    @property
    def clock(self) -> ManualClock:
        clock = self.cluster.clock
        assert isinstance(clock, ManualClock)
        return clock

    def running(self) -> Served:
        self.rig.start().until_running("0_0")
        send(self.cluster, "a", "a")
        self.rig.commit()
        self.pass_seconds(1)
        return self

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1_000)
            self.watch.check()
            self.rig.turn()

    def count(self, max_age_s: float | None = None) -> int:
        max_age = None if max_age_s is None else timedelta(seconds=max_age_s)
        value: int = self.stores.named("counts", max_age).get("a").value
        return value

    def age_s(self) -> float:
        return self.stores.named("counts", None).age.total_seconds()


@pytest.fixture
def served() -> Served:
    return Served().running()


def test_reads_go_on_with_what_was_committed_last(served: Served) -> None:
    served.rig.commit()
    for key in ("b", "a"):  # the first is committed at once, and begins the interval
        send(served.cluster, key)
        served.rig.turn()
    served.cluster.away = REFUSED
    served.pass_seconds(30)
    assert served.rig.stages == {"0_0": Stage.ASSIGNED}
    assert served.count() == 2
    assert served.stores.named("counts", None).partitions == [0]
    served.cluster.away = None
    served.pass_seconds(30)
    assert served.count() == 3


def test_reads_go_on_when_the_client_gives_its_partitions_up(served: Served) -> None:
    served.cluster.away = REFUSED
    served.pass_seconds(10)
    # With the classic protocol the client does so by itself, at the end of its session.
    served.rig.worker._rebalanced(Rebalance("lost", [TopicPartition("in", 0)]))
    served.pass_seconds(50)
    assert served.count() == 2
    assert served.age_s() > 55
    served.cluster.tick()  # the session has ended for the group, too
    served.cluster.away = None
    send(served.cluster, "a")
    served.pass_seconds(3)
    served.rig.until_running("0_0")
    served.pass_seconds(2)
    assert served.count() == 3


def test_partitions_that_were_lost_are_not_read_once_the_brokers_are_back(served: Served) -> None:
    served.cluster.away = REFUSED
    served.pass_seconds(10)
    served.rig.worker._rebalanced(Rebalance("lost", [TopicPartition("in", 0)]))
    served.cluster.away = None
    served.pass_seconds(2)
    with pytest.raises(StoreUnavailableError, match="not on this instance"):
        served.count()


def test_what_is_read_of_a_lost_partition_is_closed_with_the_worker(served: Served) -> None:
    served.cluster.away = REFUSED
    served.pass_seconds(10)
    task = served.rig.tasks["0_0"].task
    served.rig.worker._rebalanced(Rebalance("lost", [TopicPartition("in", 0)]))
    served.rig.stop()
    assert not task.state.view.rows


def test_a_task_that_never_ran_cannot_be_read_whoever_is_away(served: Served) -> None:
    served.rig.tasks["0_0"].current_ms = None
    served.rig.tasks["0_0"].move_to(Stage.ASSIGNED)
    with pytest.raises(StoreUnavailableError, match="assigned on this instance"):
        served.count()


def test_the_age_is_small_while_the_brokers_answer_and_grows_while_they_are_away(
    served: Served,
) -> None:
    served.pass_seconds(20)
    assert served.age_s() <= 1
    served.cluster.away = REFUSED
    served.pass_seconds(20)
    assert 20 <= served.age_s() <= 26
    served.cluster.away = None
    served.pass_seconds(2)
    assert served.age_s() <= 1


def test_an_answer_older_than_max_age_is_refused_with_the_age_and_the_reason(
    served: Served,
) -> None:
    assert served.count(max_age_s=2) == 2
    served.cluster.away = REFUSED
    served.pass_seconds(20)
    with pytest.raises(
        StoreUnavailableError,
        match=r"'counts'.* partition 0 .* 2\d\.0 s old, and max_age allows 2 s; the brokers are"
        r" unavailable.*larger max_age",
    ):
        served.count(max_age_s=2)
    assert served.count(max_age_s=600) == 2


def test_an_outage_of_any_length_never_ends_the_worker(served: Served) -> None:
    for _ in range(20):
        send(served.cluster, "a")
        served.cluster.away = REFUSED
        served.pass_seconds(12)
        served.cluster.away = None
        served.pass_seconds(2)
    served.pass_seconds(2)
    assert served.count() == 22


def test_one_outage_is_three_lines_at_most(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "logstate.worker.watchdog")
    served.cluster.away = REFUSED
    served.pass_seconds(70)
    served.cluster.away = None
    served.pass_seconds(2)
    said = [r for r in caplog.records if r.name == "logstate.worker.watchdog"]
    assert [r.levelname for r in said] == ["WARNING", "WARNING", "INFO"]
    assert "1 tasks of this instance are blocked" in said[0].getMessage()
    assert all(r.levelno < logging.CRITICAL for r in caplog.records)


# --- starting, with threads -----------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    made: list[Application] = []

    def application(cluster: FakeCluster, **options: object) -> Application:
        app = Application(
            topology_of(counted),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            cluster=cluster,
            **options,  # type: ignore[arg-type]
        )
        made.append(app)
        return app

    yield application
    for app in made:
        app.close()


def real(**topics: int) -> FakeCluster:
    return unhurried(topics or {"in": 1, "out": 1})


def test_a_start_waits_for_brokers_that_are_away(make: Callable[..., Application]) -> None:
    cluster = real()
    cluster.away = REFUSED
    app = make(cluster).start(waits=False)
    for _ in range(3):  # it lives through several looks
        until(lambda: not app.is_ready())
        assert app.is_live()
    cluster.away = None
    app.wait_until_running(timedelta(seconds=PATIENCE_S))
    until(lambda: app.is_ready().reason.startswith("1 tasks can be read"))


def test_a_start_that_is_told_to_stop_stops_waiting(make: Callable[..., Application]) -> None:
    cluster = real()
    cluster.away = REFUSED
    app = make(cluster).start(waits=False)
    app.close(timeout=timedelta(seconds=PATIENCE_S))
    health = app.is_live()
    assert not health
    assert "it was stopped" in health.reason


def test_a_start_with_a_time_out_says_why_it_ended(make: Callable[..., Application]) -> None:
    cluster = real()
    cluster.away = REFUSED
    app = make(cluster, start_timeout=timedelta(milliseconds=200))
    with pytest.raises(BrokerError, match=r"start_timeout allows 0\.2 s: .*Connection refused"):
        app.start()


def test_a_start_that_is_refused_does_not_wait(make: Callable[..., Application]) -> None:
    cluster = real()
    cluster.away = "they refused you: SASL authentication error"
    app = make(cluster)
    with pytest.raises(BrokerError, match=r"refuse this client: .*SASL auth.*kafka="):
        app.start()
