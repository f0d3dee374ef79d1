"""What a commit writes: times, changelog records, and which producer outputs go through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logstate.contracts.errors import AbortableError
from logstate.testing import Fault
from logstate.topology import StreamsBuilder
from tests.unit.logstate.commit.commit_rig import CHANGELOG, CommitRig


@pytest.fixture
def rig() -> CommitRig:
    return CommitRig()


# --- times and headers ----------------------------------------------------------------------------


def timed(rig: CommitRig, *times: int) -> None:
    rig.process(*(("k", str(time), time) for time in times))


def test_event_time_zero_is_one_on_outputs_and_no_timestamp_on_internal_topics(
    rig: CommitRig,
) -> None:
    """A client takes 0 for "not given" and writes the current time."""
    timed(rig, 0)
    rig.commit()
    assert [r.timestamp()[1] for r in rig.cluster.records("out")] == [1]
    assert [r.timestamp()[1] for r in rig.cluster.records(CHANGELOG.topic)] == [-1]


def test_other_event_times_travel_as_they_are(rig: CommitRig) -> None:
    timed(rig, 1, 77)
    rig.commit()
    assert [r.timestamp()[1] for r in rig.cluster.records("out")] == [1, 77]
    assert [r.timestamp()[1] for r in rig.cluster.records(CHANGELOG.topic)] == [77]


def test_repartition_records_of_event_time_zero_have_no_timestamp() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.repartition(name="again").to("out")

    rig = CommitRig(declare, **{"app-again-repartition": 1})
    timed(rig, 0)
    rig.commit()
    records = rig.cluster.records("app-again-repartition")
    assert [r.timestamp()[1] for r in records] == [-1]


def test_a_row_without_a_time_is_stamped_by_the_client(rig: CommitRig) -> None:
    rig.process(("a", "1", 5))
    state = rig.bench.task.state
    freeze = state.freeze

    def without_time() -> Any:
        changes = freeze()
        writes = {
            name: [(key, value, None, headers) for key, value, _, headers in found]
            for name, found in changes.writes.items()
        }
        return replace(changes, writes=writes)

    state.freeze = without_time  # type: ignore[method-assign]
    rig.commit()
    (record,) = rig.cluster.records(CHANGELOG.topic)
    assert record.timestamp()[1] == rig.cluster.now_ms()


def test_changelog_records_go_to_the_partition_of_the_task_with_key_value_and_time(
    rig: CommitRig,
) -> None:
    rig.process(("a", "1", 5), ("a", "1", 6))
    report = rig.commit()
    (record,) = rig.cluster.records(CHANGELOG.topic)
    assert record.partition() == 0
    assert (record.key(), record.value(), record.timestamp()[1]) == (
        b"a",
        (2).to_bytes(8, "big"),
        6,
    )
    assert report.changelog_records == {("0_0", "counts"): 1}


# --- at least once --------------------------------------------------------------------------------


def test_at_least_once_outputs_are_visible_at_once_and_state_is_not() -> None:
    rig = CommitRig(at_least_once=True)
    rig.process(("a", "1", 5))
    rig.send_outputs()
    assert len(rig.cluster.records("out")) == 1
    assert rig.cluster.records(CHANGELOG.topic) == []
    rig.commit()
    assert len(rig.cluster.records("out")) == 1
    assert len(rig.cluster.records(CHANGELOG.topic)) == 1


def test_at_least_once_repartition_records_stay_in_the_transaction() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.to("out")
        stream.repartition(name="again").to("out")

    rig = CommitRig(declare, at_least_once=True, **{"app-again-repartition": 1})
    timed(rig, 5)
    rig.send_outputs()
    assert len(rig.cluster.records("out")) == 1
    assert rig.cluster.records("app-again-repartition") == []
    rig.commit()
    assert len(rig.cluster.records("app-again-repartition")) == 1


def test_an_aborted_transaction_leaves_at_least_once_outputs_and_no_state() -> None:
    rig = CommitRig(at_least_once=True)
    rig.process(("a", "1", 5))
    rig.cluster.faults.add(Fault("commit", AbortableError("no")))
    with pytest.raises(AbortableError):
        rig.commit()
    rig.recorder.run(rig.transactions.abandon())
    assert len(rig.cluster.records("out")) == 1
    assert rig.cluster.records(CHANGELOG.topic) == []
    assert rig.committed() == {}


def test_an_output_that_cannot_be_delivered_stops_the_commit() -> None:
    rig = CommitRig(at_least_once=True)
    rig.process(("a", "1", 5))
    rig.cluster.faults.add(Fault("plain_flush", AbortableError("no")))
    with pytest.raises(AbortableError):
        rig.commit()
    assert "send_offsets" not in rig.recorder.take()
