"""Oversized cuts are read beside the tasks that run, however long transactions are open."""

from __future__ import annotations

import pytest

from logstate.changelog.cut import Cut, cut_key, encode_cut_record
from logstate.contracts.errors import AbortableError, RestoreError, RetriableError
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.restore.committed_offsets import CutsReader
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.commit.test_large_cuts import many, put
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

CUTS = TopicPartition("app-cuts", 0)
TASK = TaskId(0, 0)


class Rig:
    """A cuts topic and its reader."""

    def __init__(self) -> None:
        self.cluster: FakeCluster = cluster_of({"app-cuts": 1})
        self.recorder = StepRecorder()
        self.reader = CutsReader("app", self.cluster, self.cluster.admin())

    def write(self, offset: int, task: TaskId = TASK, time: int = 7) -> None:
        value = encode_cut_record(Cut(offset, {}, {"clock": time}), {"in": offset})
        self.cluster.produce("app-cuts", cut_key(task), value, timestamp=1)

    def cut(self, offset: int, task: TaskId = TASK) -> Cut:
        found = self.recorder.run(self.reader.cut_of(task, "in", offset))
        assert isinstance(found, Cut)
        return found


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_cut_of_the_committed_offset_is_found_past_older_ones_and_other_tasks(rig: Rig) -> None:
    rig.write(3)
    rig.write(9, time=42)
    rig.write(9, TaskId(0, 1))
    assert rig.cut(9).clocks == {"clock": 42}


def test_the_topic_is_read_once_for_all_tasks_that_start(rig: Rig) -> None:
    for partition in range(3):
        rig.write(5, TaskId(0, partition))
    for partition in range(3):
        rig.cut(5, TaskId(0, partition))
    assert rig.recorder.names.count("restore_poll") == 1
    assert rig.recorder.names.count("new_log_consumer") == 1


def test_what_comes_later_is_read_on(rig: Rig) -> None:
    rig.write(5)
    rig.cut(5)
    rig.write(8, time=99)
    assert rig.cut(8).clocks == {"clock": 99}
    assert rig.recorder.names.count("restore_assign") == 1


def test_a_cut_that_is_not_there_is_an_error_that_names_its_place(rig: Rig) -> None:
    rig.write(5)
    with pytest.raises(RestoreError, match=r"committed offset 6 of in-0 are not in 'app-cuts'"):
        rig.cut(6)


def test_behind_an_open_transaction_it_is_come_back_for(rig: Rig) -> None:
    producer = rig.cluster.transactional_producer("somebody")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("app-cuts", 0, b"manifest", b"{}", 1)])
    producer.flush()
    rig.write(5)
    with pytest.raises(RetriableError, match="a transaction is open"):
        rig.cut(5)
    producer.commit()
    assert rig.cut(5).clocks == {"clock": 7}


@pytest.mark.parametrize("call", ["start_offsets", "end_offsets", "log_assign", "log_poll"])
def test_a_call_that_fails_once_costs_one_more_try(rig: Rig, call: str) -> None:
    """Once a consumer stayed that nobody had assigned: its task was never prepared."""
    rig.write(5)
    rig.cluster.faults.add(Fault(call, RetriableError("no answer")))
    with pytest.raises(RetriableError, match="no answer"):
        rig.cut(5)
    assert rig.cut(5).clocks == {"clock": 7}


def test_a_found_cut_does_not_wait_for_what_comes_after_it(rig: Rig) -> None:
    rig.write(5)
    producer = rig.cluster.transactional_producer("somebody")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("app-cuts", 0, b"manifest", b"{}", 1)])
    producer.flush()
    assert rig.cut(5).clocks == {"clock": 7}


def test_closing_releases_the_consumer_once(rig: Rig) -> None:
    rig.write(5)
    rig.cut(5)
    rig.recorder.take()
    rig.recorder.run(rig.reader.close())
    rig.recorder.run(rig.reader.close())
    assert rig.recorder.take() == ["close_log_consumer"]


def test_a_worker_goes_on_while_a_task_waits_for_its_cut() -> None:
    """Once this was read in a loop: a foreign transaction stopped every task of the worker."""
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, many).start().until_running()
    foreign = cluster.transactional_producer("somebody")
    foreign.init_transactions()
    foreign.begin()
    foreign.produce([ProducedRecord("app-cuts", 0, b"other", b"{}", 1)])
    foreign.flush()
    put(cluster, 5, 17)
    rig.commit()  # the cut of this commit lies behind the foreign transaction
    cluster.faults.add(Fault("send_offsets", AbortableError("no")))
    put(cluster, 23)
    rig.commit()
    rig.turn(5)
    assert rig.stages == {"0_0": Stage.ASSIGNED}
    foreign.commit()
    rig.until_running()
    assert rig.tasks["0_0"].task.stream_time == 17
