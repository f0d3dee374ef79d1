"""The commit: the order of its steps, what it refuses, offsets and cuts."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.changelog.cut import Cut, Writer, decode_cut_record
from logstate.contracts.errors import AbortableError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.testing import Fault
from tests.unit.logstate.commit.commit_rig import CHANGELOG, EPOCH, IN, OTHER, CommitRig, counted
from tests.unit.logstate.task.task_bench import APPLICATION, TaskBench


@pytest.fixture
def rig() -> CommitRig:
    return CommitRig()


def rows(rig: CommitRig) -> Any:
    return rig.bench.task.state.stores["counts"]


# --- the order of the steps -----------------------------------------------------------------------


def test_the_steps_of_a_commit_and_their_order(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.commit()
    assert rig.recorder.take() == [
        "begin",
        "produce",  # outputs
        "pause_commit",
        "produce",  # the changelog
        "flush",
        "group_metadata",
        "send_offsets",
        "commit",
    ]


def test_outputs_sent_early_are_not_sent_again(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.send_outputs()
    assert rig.recorder.take() == ["begin", "produce"]
    rig.commit()
    assert rig.recorder.take() == [
        "pause_commit",
        "produce",
        "flush",
        "group_metadata",
        "send_offsets",
        "commit",
    ]
    assert len(rig.cluster.records("out")) == 1


def test_at_least_once_outputs_are_delivered_before_the_offsets_that_cover_them() -> None:
    rig = CommitRig(at_least_once=True)
    rig.process(("a", "1", 5))
    rig.commit()
    steps = rig.recorder.take()
    assert steps.index("produce_plain") < steps.index("flush_plain") < steps.index("send_offsets")
    assert steps.count("produce") == 1, "the changelog"


def test_nothing_is_visible_before_the_commit_and_everything_after_it(rig: CommitRig) -> None:
    seen: list[tuple[int, int, bool]] = []

    def check() -> None:
        seen.append(
            (
                len(rig.cluster.records("out")),
                len(rig.cluster.records(CHANGELOG.topic)),
                IN in rig.committed(),
            )
        )

    rig.process(("a", "1", 5))
    rig.recorder.before["commit"] = check
    rig.commit()
    check()
    assert seen == [(0, 0, False), (1, 1, True)]


def test_rows_become_the_committed_view_only_after_the_commit(rig: CommitRig) -> None:
    state = rig.bench.task.state
    state.restored()
    rig.process(("a", "1", 5))
    seen = []
    rig.recorder.before["commit"] = lambda: seen.append(state.view.rows["counts"].get(b"a"))
    rig.commit()
    assert seen == [None]
    assert state.view.rows["counts"].get(b"a") is not None
    assert state.unapplied_rows() == 1


@pytest.mark.parametrize("step", ["begin", "produce", "flush", "send_offsets", "commit"])
def test_a_step_that_fails_leaves_nothing_on_the_log(rig: CommitRig, step: str) -> None:
    rig.process(("a", "1", 5))
    rig.cluster.faults.add(Fault(step, AbortableError("no")))
    with pytest.raises(AbortableError):
        rig.commit()
    rig.recorder.run(rig.transactions.abandon())
    assert rig.cluster.records("out") == []
    assert rig.cluster.records(CHANGELOG.topic) == []
    assert rig.committed() == {}
    assert rig.bench.task.state.positions == {}
    rig.bench.task.discard()
    assert rows(rig).get("a") is None


# --- ownership ------------------------------------------------------------------------------------


def test_a_partition_that_was_given_up_stops_the_commit_before_anything_is_sent(
    rig: CommitRig,
) -> None:
    rig.process(("a", "1", 5))
    del rig.epochs[OTHER]
    with pytest.raises(AbortableError, match=r"task 0_0 no longer owns other-0 since"):
        rig.commit()
    assert rig.recorder.take() == []


def test_a_partition_that_came_back_with_another_assignment_stops_the_commit(
    rig: CommitRig,
) -> None:
    rig.epochs[IN] = EPOCH + 2
    with pytest.raises(AbortableError, match="no longer owns in-0"):
        rig.commit()


def test_another_membership_stops_the_commit(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.consumer._member_id = "another"
    with pytest.raises(AbortableError, match="no longer the group member"):
        rig.commit()
    assert rig.recorder.take() == []


def test_a_new_membership_is_that_of_the_tasks_once_they_were_assigned(rig: CommitRig) -> None:
    rig.consumer._member_id = "another"
    rig.committer.joined()
    rig.owned.partitions = ()
    rig.committer._check_ownership([rig.owned], rig.epochs, "another")


@pytest.mark.parametrize("step", ["produce", "flush"])
def test_what_is_lost_during_the_commit_stops_it_before_the_offsets(
    rig: CommitRig, step: str
) -> None:
    rig.process(("a", "1", 5))
    rig.recorder.before[step] = lambda: rig.epochs.pop(IN)
    with pytest.raises(AbortableError, match="no longer owns in-0"):
        rig.commit()
    assert "send_offsets" not in rig.recorder.take()


def test_a_member_that_was_thrown_out_is_fenced_by_the_group(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.cluster.group(APPLICATION).leave(rig.consumer.member_id())
    with pytest.raises(AbortableError, match="UNKNOWN_MEMBER_ID"):
        rig.commit()
    assert rig.committed() == {}


def test_group_metadata_is_fresh_at_each_commit(rig: CommitRig) -> None:
    for number in range(2):
        rig.process(("a", "1", 5 + number))
        rig.commit()
        newcomer = rig.cluster.group_consumer(group_id=APPLICATION, instance_id=None)
        newcomer.subscribe(["in"], lambda _: None)
        newcomer.poll(10, 0)
        newcomer.close()
        rig.consumer.poll(10, 0)  # the heartbeat brings the new epoch
    assert rig.recorder.names.count("group_metadata") == 2
    assert rig.committed()[IN].offset == 2


# --- offsets and cuts -----------------------------------------------------------------------------


def test_all_inputs_are_committed_again_though_only_one_moved(rig: CommitRig) -> None:
    rig.process(("a", "1", 5), ("b", "1", 6), ("c", "1", 7))
    rig.commit()
    rig.process(("a", "2", 8))
    report = rig.commit()
    assert report.offsets == {IN: 4, OTHER: 0}
    assert {tp: c.offset for tp, c in rig.committed().items()} == {IN: 4, OTHER: 0}
    assert rig.cut(OTHER).positions == rig.cut(IN).positions


def test_a_commit_without_records_still_commits_offsets_in_a_transaction(rig: CommitRig) -> None:
    report = rig.commit()
    assert rig.recorder.take() == ["begin", "flush", "group_metadata", "send_offsets", "commit"]
    assert report.offsets == {IN: 0, OTHER: 0}
    assert report.changelog_records == {}
    assert rig.cut().offset == 0


def test_a_cut_holds_positions_clocks_times_and_topic_ids_of_the_same_moment(
    rig: CommitRig,
) -> None:
    rig.process(("a", "1", 5), ("b", "1", 9), ("a", "1", 7))
    rig.process(("a", "1", 6), topic="other")
    rig.commit()
    assert rig.cut() == Cut(
        3,
        positions={CHANGELOG.topic: 2},
        clocks={"task:stream_time": 9},
        topic_ids={"in": "id-of-in", "other": "id-of-other"},
        writer=Writer("tx", "app-member-0001"),
    )
    assert rig.metadata(IN).partition_time_ms == 9
    assert rig.metadata(OTHER).partition_time_ms == 6
    assert rig.bench.task.state.positions == {"counts": 2}


def test_changelog_positions_come_from_the_delivery_reports(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.commit()
    rig.process(("a", "1", 6))
    rig.commit()
    # a record, its marker, a record: the position is behind the record, the marker is counted
    assert rig.cut().positions == {CHANGELOG.topic: 3}


def test_a_store_that_wrote_nothing_keeps_its_position_in_the_cut(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    rig.commit()
    rig.commit()
    assert rig.cut().positions == {CHANGELOG.topic: 1}


def test_clocks_that_never_moved_are_left_out(rig: CommitRig) -> None:
    rig.commit()
    assert rig.cut().clocks == {}


def test_a_cut_too_long_for_metadata_goes_to_the_cuts_topic_in_the_same_transaction(
    rig: CommitRig,
) -> None:
    for number in range(400):
        rig.bench.task.time_cell(f"a rather long name of a clock {number}").time = number
    seen = []
    rig.recorder.before["commit"] = lambda: seen.append(len(rig.cluster.records("app-cuts")))
    rig.commit()
    assert seen == [0]
    assert rig.cut().is_in_cuts_topic
    (record,) = rig.cluster.records("app-cuts")
    assert record.key() == b"cut:0_0"
    found = decode_cut_record(record.value() or b"", topic="in", committed_offset=0)
    assert found is not None
    assert found.clocks["a rather long name of a clock 399"] == 399
    assert rig.recorder.take() == [
        "begin",
        "flush",
        "produce",
        "flush",
        "group_metadata",
        "send_offsets",
        "commit",
    ]


def test_several_tasks_are_one_transaction() -> None:
    rig = CommitRig(**{"in": 2, "other": 2, "app-counts-changelog": 2})
    bench = TaskBench(counted, partition=1)
    owned = OwnedTask(TaskId(0, 1), bench.task.partitions, EPOCH + 1, bench.task)
    for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
        owned.move_to(stage)
    bench.task.start_at(dict.fromkeys(bench.task.partitions, 0))
    epochs = {**rig.epochs, **dict.fromkeys(bench.task.partitions, EPOCH + 1)}
    rig.process(("a", "1", 5))
    bench.add("in", ("b", "1", 5), ("b", "2", 6))
    bench.end("other")
    bench.task.process(10)
    report = rig.recorder.run(rig.committer.commit([rig.owned, owned], epochs))
    assert rig.recorder.take().count("commit") == 1
    assert report.offsets == {
        IN: 1,
        OTHER: 0,
        TopicPartition("in", 1): 2,
        TopicPartition("other", 1): 0,
    }
    keys = [(r.partition(), r.key()) for r in rig.cluster.records(CHANGELOG.topic)]
    assert keys == [(0, b"a"), (1, b"b")]
