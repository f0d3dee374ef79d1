"""Replaying changelogs: by position, beside other tasks, interrupted and resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstate.contracts.clock import ManualClock
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.restore import RestoreProgress, Restorer
from logstate.task.owned_task import OwnedTask, Stage, StoreTarget
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.task.task_bench import TaskBench
from tests.unit.logstate.worker.worker_rig import cluster_of

LOG = TopicPartition("app-counts-changelog", 0)
OTHER_LOG = TopicPartition("app-counts-changelog", 1)


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


def int64(number: int) -> bytes:
    return number.to_bytes(8, "big")


class RestoreRig:
    """A cluster with one changelog of two partitions, and a restorer."""

    def __init__(self, **options: Any) -> None:
        self.cluster: FakeCluster = cluster_of({LOG.topic: 2}, **options)
        self.progress: list[RestoreProgress] = []
        self.restorer = Restorer(
            WorkerConfig("app", "app-0"),
            self.cluster,
            self.progress.append,
            self.cluster.clock.monotonic_ms,
        )
        self.recorder = StepRecorder()

    def write(self, key: str, value: int | None, timestamp: int = 5, partition: int = 0) -> None:
        data = None if value is None else int64(value)
        self.cluster.produce(
            LOG.topic, key.encode(), data, timestamp=timestamp, partition=partition
        )

    def transaction(self, *rows: tuple[str, int], end: str, name: str = "tx") -> None:
        """Rows in a transaction that is committed, aborted, or left open."""
        producer = self.cluster.transactional_producer(name)
        producer.init_transactions()
        producer.begin()
        producer.produce([ProducedRecord(LOG.topic, 0, k.encode(), int64(v), 5) for k, v in rows])
        producer.flush()
        if end == "commit":
            producer.commit()
        elif end == "abort":
            producer.abort()

    def task(self, partition: int = 0, target: int | None = None) -> OwnedTask:
        """A task whose target is the end of its changelog now, as read uncommitted."""
        log = TopicPartition(LOG.topic, partition)
        bench = TaskBench(counted, partition=partition)
        owned = OwnedTask(TaskId(0, partition), bench.task.partitions, 1, bench.task)
        end = self.cluster.admin().end_offsets([log])[log]
        owned.targets = [StoreTarget("counts", log, end if target is None else target)]
        return owned

    def poll(self, until: Callable[[], bool] | None = None, limit: int = 50) -> None:
        for _ in range(limit if until else 1):
            self.recorder.run(self.restorer.poll(0))
            if until and until():
                return
        assert not until, "not restored"

    def restore(self, owned: OwnedTask) -> None:
        self.restorer.add(owned)
        self.poll(lambda: owned.targets[0].is_done)


def rows(owned: OwnedTask) -> dict[str, int]:
    owned.task.state.apply()  # as at the end of every restore: nothing shows before
    found: Any = owned.task.state.stores["counts"]
    return {key: row.value for key, row in found.all()}


def position(owned: OwnedTask) -> int | None:
    return owned.task.state.positions.get("counts")


@pytest.fixture
def rig() -> RestoreRig:
    return RestoreRig()


# --- targets --------------------------------------------------------------------------------------


def test_the_last_row_per_key_is_restored_and_deletes_are_honoured(rig: RestoreRig) -> None:
    for key, value in (("a", 1), ("b", 1), ("a", 2), ("b", None), ("c", 1)):
        rig.write(key, value)
    owned = rig.task()
    rig.restore(owned)
    assert rows(owned) == {"a": 2, "c": 1}
    assert position(owned) == 5
    assert owned.restored_records == owned.targets[0].restored_records == 5
    assert rig.restorer.is_idle


def test_a_store_at_its_target_is_done_without_reading(rig: RestoreRig) -> None:
    owned = rig.task()
    rig.restorer.add(owned)
    assert owned.targets[0].is_done
    assert rig.restorer.is_idle
    rig.poll()
    assert rig.recorder.take() == []


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_log_that_ends_in_markers_is_done_when_the_position_passes_them(
    rig: RestoreRig, end: str
) -> None:
    rig.write("a", 1)
    rig.transaction(("a", 2), ("b", 2), end=end)
    owned = rig.task()
    assert owned.targets[0].target == 4
    rig.restore(owned)
    assert rows(owned) == ({"a": 2, "b": 2} if end == "commit" else {"a": 1})
    assert position(owned) == 4


def test_a_log_of_nothing_but_aborted_records_is_done(rig: RestoreRig) -> None:
    rig.transaction(("a", 1), end="abort")
    owned = rig.task()
    rig.restore(owned)
    assert rows(owned) == {}
    assert position(owned) == 2


def test_holes_that_compaction_left_at_the_end_are_passed(rig: RestoreRig) -> None:
    for value in range(5):
        rig.write("a", value)
    rig.cluster.log(LOG).truncate(5)
    rig.cluster.log(LOG).compact(10**12, tombstone_lifetime_ms=0)
    rig.transaction(("x", 1), end="abort")
    rig.cluster.log(LOG).compact(10**12, tombstone_lifetime_ms=0)
    owned = rig.task()
    rig.restore(owned)
    assert rows(owned) == {"a": 4}
    assert position(owned) == owned.targets[0].target


def test_an_open_transaction_is_waited_for_because_its_outcome_counts(rig: RestoreRig) -> None:
    rig.write("a", 1)
    rig.transaction(("a", 2), end="open")
    owned = rig.task()
    assert owned.targets[0].target == 2, "the open record lies below the target"
    rig.restorer.add(owned)
    for _ in range(3):
        rig.poll()
    assert not owned.targets[0].is_done
    assert rows(owned) == {"a": 1}
    rig.cluster.transactional_producer("tx").init_transactions()  # its successor aborts it
    rig.poll(lambda: owned.targets[0].is_done)
    assert rows(owned) == {"a": 1}


def test_what_comes_after_the_target_is_not_waited_for(rig: RestoreRig) -> None:
    rig.write("a", 1)
    owned = rig.task()
    rig.transaction(("a", 2), end="open")
    rig.restore(owned)
    assert rows(owned) == {"a": 1}


@pytest.mark.parametrize("fetch_records_max", [1, 2, 500])
def test_a_replay_takes_no_record_at_or_beyond_its_target(fetch_records_max: int) -> None:
    rig = RestoreRig(fetch_records_max=fetch_records_max)
    for value in range(9):
        rig.write("a", value)
    owned = rig.task(target=5)
    rig.restore(owned)
    assert rows(owned) == {"a": 4}
    assert position(owned) == owned.restored_records == 5


def test_a_replay_ends_at_its_target_although_the_consumer_passed_markers(rig: RestoreRig) -> None:
    rig.write("a", 1)
    rig.transaction(("a", 2), ("a", 3), end="abort")
    owned = rig.task(target=2)
    rig.restore(owned)
    assert rows(owned) == {"a": 1}
    assert position(owned) == 2


# --- where it starts ------------------------------------------------------------------------------


def test_only_what_the_local_rows_lack_is_replayed(rig: RestoreRig) -> None:
    for value in range(4):
        rig.write("a", value)
    owned = rig.task()
    owned.task.state.restore("counts", (), 3)
    rig.restore(owned)
    assert owned.restored_records == 1
    assert rows(owned) == {"a": 3}


def test_event_time_zero_comes_back_from_no_timestamp(rig: RestoreRig) -> None:
    rig.write("a", 1, timestamp=-1)
    rig.write("b", 1, timestamp=7)
    owned = rig.task()
    rig.restore(owned)
    owned.task.state.apply()
    found: Any = owned.task.state.stores["counts"]
    assert [(key, row.timestamp) for key, row in found.all()] == [("a", 0), ("b", 7)]


# --- several tasks --------------------------------------------------------------------------------


def test_tasks_are_restored_side_by_side_and_end_each_for_itself(rig: RestoreRig) -> None:
    rig.transaction(("a", 1), end="open")
    rig.write("b", 2, partition=1)
    blocked, free = rig.task(0), rig.task(1)
    rig.restorer.add(blocked)
    rig.restorer.add(free)
    rig.poll(lambda: free.targets[0].is_done)
    assert rows(free) == {"b": 2}
    assert not blocked.targets[0].is_done


def test_a_task_that_joins_later_does_not_send_the_others_back(rig: RestoreRig) -> None:
    for value in range(3):
        rig.write("a", value)
    rig.transaction(("a", 9), end="open")
    first = rig.task(0)
    rig.restorer.add(first)
    rig.poll()
    assert position(first) == 3
    rig.write("b", 1, partition=1)
    second = rig.task(1)
    rig.restorer.add(second)
    rig.poll(lambda: second.targets[0].is_done)
    assert first.restored_records == 3
    (positions,) = rig.recorder.arguments["restore_assign"][-1]
    assert positions == {LOG: 3, OTHER_LOG: 0}


def test_a_removed_task_keeps_what_it_got_and_goes_on_from_there() -> None:
    rig = RestoreRig(fetch_records_max=2)
    for value in range(5):
        rig.write(f"k{value}", value)
    owned = rig.task()
    rig.restorer.add(owned)
    rig.poll()
    assert position(owned) == 2
    rig.restorer.remove(owned)
    assert rig.restorer.is_idle
    rig.poll()
    assert position(owned) == 2
    rig.restore(owned)
    assert rows(owned) == {f"k{value}": value for value in range(5)}
    assert owned.restored_records == 5


def test_records_fetched_before_a_new_assignment_are_dropped(rig: RestoreRig) -> None:
    rig.write("a", 1)
    rig.write("a", 2)
    owned = rig.task(target=9)
    rig.restorer.add(owned)
    owned.task.state.restore("counts", (), 2)
    rig.restorer._apply_records(LOG, rig.cluster.records(LOG.topic, 0))
    assert rows(owned) == {}
    assert owned.restored_records == 0
    rig.write("a", 3)
    rig.restorer._apply_records(LOG, rig.cluster.records(LOG.topic, 0))
    assert rows(owned) == {"a": 3}
    assert owned.restored_records == 1


# --- telling --------------------------------------------------------------------------------------


def test_a_listener_hears_of_every_step_up_to_the_target() -> None:
    rig = RestoreRig(fetch_records_max=2)
    for value in range(5):
        rig.write("a", value)
    rig.restore(rig.task())
    assert {(p.task, p.store, p.topic, p.target) for p in rig.progress} == {
        ("0_0", "counts", LOG.topic, 5)
    }
    assert [p.position for p in rig.progress] == [2, 4, 5]


# --- the consumer ---------------------------------------------------------------------------------


def test_the_consumer_is_made_once_when_it_is_needed_and_closed_once(rig: RestoreRig) -> None:
    rig.recorder.run(rig.restorer.close())
    assert rig.recorder.take() == []
    for partition in (0, 1):
        rig.write("a", 1, partition=partition)
        rig.restore(rig.task(partition))
    assert rig.recorder.names.count("new_log_consumer") == 1
    rig.recorder.take()
    rig.recorder.run(rig.restorer.close())
    rig.recorder.run(rig.restorer.close())
    assert rig.recorder.take() == ["close_log_consumer"]


def assigned(rig: RestoreRig) -> list[TopicPartition]:
    consumer: Any = rig.restorer._consumer
    return consumer._fetcher.partitions  # type: ignore[no-any-return]


def test_a_consumer_that_has_nothing_to_read_has_no_logs(rig: RestoreRig) -> None:
    """Its client would fetch all that the task writes now."""
    rig.write("a", 1)
    rig.restore(rig.task())
    assert assigned(rig) == []
    assert not rig.restorer.must_wait
    rig.poll()
    assert rig.recorder.arguments["restore_assign"] == [({LOG: 0},)]
    assert rig.recorder.arguments["restore_rest"] == [({},)]


def test_a_task_that_is_removed_leaves_no_log_to_the_consumer(rig: RestoreRig) -> None:
    rig.write("a", 1)
    owned = rig.task(target=9)
    rig.restorer.add(owned)
    rig.poll()
    assert assigned(rig) == [LOG]
    rig.restorer.remove(owned)
    assert rig.restorer.must_wait
    rig.poll()
    assert assigned(rig) == []
    rig.write("a", 2)
    owned.targets[0].target = 2
    rig.restore(owned)
    assert rows(owned) == {"a": 2}


# --- logs that are cut off ------------------------------------------------------------------------


def test_a_log_that_is_cut_off_below_its_restore_sends_its_task_back() -> None:
    """Its start is decided anew: rows of expired windows are not missed, others are rebuilt."""
    rig = RestoreRig(fetch_records_max=1)
    for value in range(5):
        rig.write("a", value)
    rig.write("b", 1, partition=1)
    cut_off, other = rig.task(0), rig.task(1)
    for owned in (cut_off, other):
        owned.move_to(Stage.RESTORING)
        rig.restorer.add(owned)
    rig.poll()
    rig.cluster.log(LOG).delete_before(4)
    rig.poll(lambda: cut_off.stage is Stage.ASSIGNED and other.targets[0].is_done)
    assert rig.restorer.is_idle
    assert rows(other) == {"b": 1}


def test_progress_tells_the_rate_and_how_long_it_will_take() -> None:
    rig = RestoreRig(fetch_records_max=2)
    assert isinstance(rig.cluster.clock, ManualClock)
    for key in "abcdefgh":
        rig.write(key, 1)
    rig.restorer.add(rig.task())
    rig.poll()
    assert (rig.progress[-1].offsets_per_s, rig.progress[-1].remaining_s) == (None, None)
    rig.cluster.clock.advance(2_000)
    rig.poll()
    told = rig.progress[-1]
    assert (told.position, told.restored_records, told.is_done) == (4, 4, False)
    assert (told.offsets_per_s, told.remaining_s) == (2.0, 2.0)
