"""After any failed transaction: abort, replay, and the outputs of an uninterrupted run."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta

import pytest

from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    ProductionError,
    RestoreError,
    RetriableError,
)
from logstate.contracts.records import Record, TopicPartition
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.processor.processor import ProcessorContext
from tests.unit.logstate.flows import counted, recounted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

KEYS = "abcabca"


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 2, "out": 1})


def expected(keys: str) -> list[tuple[str, str]]:
    return sorted((k, str(i)) for k, n in Counter(keys).items() for i in range(1, n + 1))


def running(cluster: FakeCluster, **options: object) -> WorkerRig:
    rig = WorkerRig(cluster, counted, **options).start()  # type: ignore[arg-type]
    return rig.until_running("0_0", "0_1")


# --- one failure ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_carried_out", [True, False], ids=["answer lost", "refused"])
@pytest.mark.parametrize(
    "error", [AbortableError("no"), FencedError("late"), RetriableError("slow")], ids=repr
)
@pytest.mark.parametrize("call", ["begin", "produce", "flush", "send_offsets", "commit"])
def test_a_transaction_that_fails_anywhere_is_replayed_to_the_same_results(
    cluster: FakeCluster, call: str, error: LogstateError, is_carried_out: bool
) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    cluster.faults.add(Fault(call, error, is_carried_out=is_carried_out))
    rig.commit()
    rig.until_running()
    rig.commit()
    send(cluster, "a")
    rig.commit()
    assert sorted(outputs(cluster)) == expected(KEYS + "a")
    assert rig.total("transactions_aborted_total") == 1
    assert cluster.transactions.open_transactions() == []


def test_every_task_goes_through_its_stages_again(cluster: FakeCluster) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    rig.turn()
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.clock.advance(100)
    rig.turn()
    assert rig.stages in (
        {"0_0": Stage.ASSIGNED, "0_1": Stage.ASSIGNED},
        {"0_0": Stage.RUNNING, "0_1": Stage.RUNNING},
    )
    rig.until_running()
    for owned in rig.tasks.values():
        assert owned.history[-4:] == [
            Stage.RUNNING,
            Stage.ASSIGNED,
            Stage.RESTORING,
            Stage.STARTING,
        ]


def test_an_abort_alone_costs_no_restore_and_no_rebuild(cluster: FakeCluster) -> None:
    disk = Disk()
    rig = running(cluster, disk=disk)
    send(cluster, *KEYS)
    rig.commit()
    send(cluster, *KEYS)
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.commit()
    rig.until_running()
    assert rig.total("restore_total") == 0
    assert disk.destroyed == []


def test_after_a_commit_whose_answer_was_lost_only_the_tail_is_replayed(
    cluster: FakeCluster,
) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    rig.commit()
    send(cluster, "a")
    cluster.faults.add(Fault("commit", RetriableError("no answer"), is_carried_out=True))
    rig.commit()
    rig.until_running()
    rig.clock.advance(200)
    rig.turn(2)
    assert rig.total("restore_total") == 1
    assert sorted(outputs(cluster)) == expected(KEYS + "a")


def test_a_slow_commit_replaces_the_producer_and_disturbs_nothing(cluster: FakeCluster) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    cluster.faults.add(Fault("commit", is_repeated=True))
    rig.commit()
    assert rig.steps[-3:] == ["close_producer", "new_producer", "init_transactions"]
    send(cluster, "a")
    rig.turn()
    cluster.deliver_late_end()
    rig.commit()
    assert sorted(outputs(cluster)) == expected(KEYS + "a")
    assert rig.total("transactions_aborted_total") == 0


def test_the_cause_of_an_abort_is_logged(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    cluster.faults.add(Fault("flush", AbortableError("the leader moved")))
    with caplog.at_level(logging.WARNING):
        rig.commit()
    assert "records are replayed: the leader moved" in caplog.text


def test_repartitioned_counts_survive_a_failure_at_every_commit(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, recounted).start()
    rig.until_running("0_0", "0_1", "1_0", "1_1")
    for number, key in enumerate(KEYS):
        send(cluster, key)
        cluster.faults.add(Fault("commit", AbortableError("no"), is_carried_out=number % 2 == 0))
        rig.commit()
        rig.until_running()
        rig.clock.advance(600_001)  # so that the aborts do not add up
    for _ in range(3):
        rig.commit()
    assert sorted(outputs(cluster)) == expected(KEYS)


# --- what a discard takes back --------------------------------------------------------------------


class Alarm(Processor[str, str, str, str]):
    """Reports every stream-time tick; the record "more" makes one more schedule."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.schedule()

    def schedule(self) -> None:
        self.context.schedule(timedelta(milliseconds=2), "stream_time", self.ring)

    def ring(self, now: int) -> None:
        self.context.forward(Record("ring", str(now), now))

    def process(self, record: Record[str, str]) -> None:
        if record.value == "more":
            self.schedule()


def alarmed(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).process(Alarm).to("out", key=str, value=str)


def test_schedules_of_an_aborted_attempt_are_not_met_again() -> None:
    results = []
    for fails in (False, True):
        cluster = cluster_of({"in": 1, "out": 1})
        rig = WorkerRig(cluster, alarmed).start()
        rig.until_running()
        send(cluster, "a", "b")
        rig.commit()
        send(cluster, "more", "c", "d", "e")
        if fails:
            cluster.faults.add(Fault("commit", AbortableError("no")))
        rig.commit()
        rig.until_running()
        send(cluster, "f", "g")
        rig.commit()
        rig.commit()
        results.append(outputs(cluster))
    assert results[0] == results[1]
    assert len(results[0]) > 4


# --- too many failures ----------------------------------------------------------------------------


def test_too_many_aborts_stop_the_worker_with_the_last_cause(cluster: FakeCluster) -> None:
    rig = running(cluster, aborts_max=3)
    send(cluster, *KEYS)
    for _ in range(10):
        cluster.faults.add(Fault("send_offsets", FencedError("another has this id")))

    def until_it_gives_up() -> None:
        for _ in range(20):
            rig.commit()

    with pytest.raises(BrokerError, match=r"4 transactions failed .*another has this id"):
        until_it_gives_up()
    assert rig.is_finished
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []
    assert cluster.group("app").members == {}


@pytest.mark.parametrize(
    "error", [AbortableError("the coordinator moved"), RetriableError("timed out")], ids=repr
)
@pytest.mark.parametrize("call", ["begin", "flush", "send_offsets", "commit"])
def test_errors_of_the_brokers_are_outlasted_however_many_there_are(
    cluster: FakeCluster, call: str, error: LogstateError, caplog: pytest.LogCaptureFixture
) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    for _ in range(30):
        cluster.faults.add(Fault(call, error))
    rig.until(lambda: rig.clock.advance(1_000) or len(outputs(cluster)) == len(KEYS))
    assert sorted(outputs(cluster)) == expected(KEYS)
    assert rig.total("transactions_aborted_total") == 30
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(told) >= 1
    assert "6 transactions in a row failed without a commit in between" in told[0]
    assert str(error) in told[0]


def test_aborts_far_apart_never_add_up(cluster: FakeCluster) -> None:
    rig = running(cluster, aborts_max=2, aborts_window_ms=60_000)
    for key in KEYS:
        send(cluster, key)
        cluster.faults.add(Fault("commit", AbortableError("no")))
        rig.commit()
        rig.until_running()
        rig.clock.advance(60_001)
        rig.commit()
    assert sorted(outputs(cluster)) == expected(KEYS)


# --- what no replay mends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [BrokerError("not authorised"), ProductionError("too large")], ids=repr
)
def test_what_no_replay_mends_stops_the_worker_at_once(
    cluster: FakeCluster, error: LogstateError
) -> None:
    rig = running(cluster)
    send(cluster, *KEYS)
    cluster.faults.add(Fault("produce", error))
    with pytest.raises(type(error)):
        rig.commit()
    assert rig.total("transactions_aborted_total") == 0
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []


def test_input_that_was_deleted_beside_state_stops_the_worker(cluster: FakeCluster) -> None:
    """Counting on from anywhere else would be wrong."""
    rig = running(cluster)
    send(cluster, *KEYS)
    rig.commit()
    rig.stop()
    send(cluster, *KEYS)
    for partition in range(2):
        cluster.log(TopicPartition("in", partition)).delete_before(-1)
    rig = WorkerRig(cluster, counted).start()
    with pytest.raises(RestoreError, match="while the changelogs of its task hold state"):
        rig.turn(20)


# --- death ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loses_disk", [True, False])
def test_a_killed_worker_is_continued_by_its_successor(
    cluster: FakeCluster, loses_disk: bool
) -> None:
    disk = Disk()
    killed = running(cluster, disk=disk)
    send(cluster, *KEYS)
    killed.commit()
    send(cluster, *KEYS)
    killed.turn()
    killed.kill()
    assert len(outputs(cluster)) == len(KEYS)
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    heir = running(cluster, disk=Disk() if loses_disk else disk)
    heir.commit()
    assert sorted(outputs(cluster)) == expected(KEYS + KEYS)
    for name, owned in heir.tasks.items():
        rows = {key: row.value for key, row in heir.store(name, "counts").all()}
        assert rows == {key: 2 * KEYS.count(key) for key in rows}
        assert owned.stage is Stage.RUNNING


@pytest.mark.parametrize("step", ["produce", "flush", "send_offsets", "commit", "poll"])
def test_a_worker_killed_before_any_step_loses_and_doubles_nothing(
    cluster: FakeCluster, step: str
) -> None:
    killed = running(cluster)
    send(cluster, *KEYS)

    class Killed(BaseException):
        pass

    def kill(made: object) -> None:
        if getattr(made, "name", None) == step and killed.steps.count(step) > before:
            raise Killed

    before = killed.steps.count(step)
    killed.before = kill
    with pytest.raises(Killed):
        killed.commit()
    killed.kill()
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    heir = running(cluster)
    heir.commit()
    assert sorted(outputs(cluster)) == expected(KEYS)


def test_a_producer_of_outputs_that_has_become_useless_is_replaced(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = running(cluster, guarantee="at_least_once")
    made = rig.worker._live.clients.outputs._client  # type: ignore[union-attr]

    def is_useless(*_: object) -> None:
        raise FencedError("the client has met a fatal error")

    monkeypatch.setattr(made, "produce", is_useless)
    monkeypatch.setattr(made, "flush", is_useless)
    send(cluster, *"ab")
    for _ in range(20):
        rig.commit()
    assert outputs(cluster) == expected("ab")
    assert rig.total("transactions_aborted_total") == 1
