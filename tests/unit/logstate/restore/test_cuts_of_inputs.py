"""Which cut a task goes on from: that of all its inputs, or none."""

from __future__ import annotations

import base64

import pytest

from logstate.changelog.cut import Cut, OffsetMetadata
from logstate.contracts.clients import Committed
from logstate.contracts.records import Record, TopicPartition
from logstate.restore.restore_plan import counting_cuts, joined_cut
from logstate.topology import Processor, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs

A, B = TopicPartition("a", 2), TopicPartition("b", 2)
IDS = {"a": "id-a", "b": "id-b"}
AT_5 = Cut(5, {"log": 7}, {"clock": 70}, IDS)
OURS = OffsetMetadata(70, {}, AT_5)
JVMS = OffsetMetadata(90, {"store": 80})
NOBODYS = OffsetMetadata()


def counting(a: OffsetMetadata, b: OffsetMetadata, *, b_offset: int | None = 9) -> set[str]:
    cuts = counting_cuts({A: a, B: b}, {A: Committed(5, ""), B: Committed(b_offset, "")})
    return {tp.topic for tp in cuts}


def test_the_cut_that_every_input_carries_counts() -> None:
    assert counting(OURS, OURS._replace(cut=AT_5._replace(offset=9))) == {"a", "b"}


@pytest.mark.parametrize("other", [JVMS, NOBODYS], ids=["the JVM's", "a reset"])
def test_no_cut_counts_where_somebody_else_committed_one_of_the_inputs(
    other: OffsetMetadata,
) -> None:
    """The JVM commits only inputs that brought records: the others keep the cut of before."""
    assert counting(OURS, other) == set()
    assert counting(other, OURS) == set()


def test_an_input_that_is_new_takes_nothing_away() -> None:
    before = OURS._replace(cut=AT_5._replace(topic_ids={"a": "id-a"}))
    assert counting(before, NOBODYS, b_offset=None) == {"a"}


def test_no_cut_counts_where_the_offset_of_an_input_that_it_knows_is_gone() -> None:
    assert counting(OURS, NOBODYS, b_offset=None) == set()


def test_no_cut_counts_where_an_input_that_it_does_not_know_was_committed() -> None:
    before = OURS._replace(cut=AT_5._replace(topic_ids={"a": "id-a"}))
    assert counting(before, JVMS) == set()


def test_inputs_without_offsets_have_no_cut() -> None:
    assert counting_cuts({A: NOBODYS}, {A: Committed(None, "")}) == {}
    assert joined_cut([]) is None


def test_the_cuts_of_tasks_that_became_one_are_joined_by_the_largest() -> None:
    one = Cut(5, {"log": 7, "both": 1}, {"clock": 70, "stream": 5})
    other = Cut(9, {"other": 3, "both": 2}, {"stream": 9, "clock": 1})
    for cuts in ([one, other], [other, one]):
        joined = joined_cut(cuts)
        assert joined is not None
        assert joined.positions == {"log": 7, "other": 3, "both": 2}
        assert joined.clocks == {"clock": 70, "stream": 9}


# --- in a worker ----------------------------------------------------------------------------------


class Clocked(Processor[str, str, str, str]):
    """Forwards the stream time that it sees."""

    def process(self, record: Record[str, str]) -> None:
        now = str(self.context.current_stream_time_ms())
        self.context.forward(record._replace(value=now))


def two_inputs(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    merged = stream.merge(builder.stream("other", key=str, value=str)).process(Clocked)
    merged.to("out", key=str, value=str)


def test_a_task_goes_on_from_the_times_of_the_jvm_where_that_read_one_of_its_inputs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of({"in": 1, "other": 1, "out": 1})
    rig = WorkerRig(cluster, two_inputs).start()
    rig.until_running()
    cluster.produce("in", b"k", b"v", timestamp=700)
    rig.commit()
    rig.stop()
    cluster.produce("other", b"k", b"v", timestamp=900)
    jvms = base64.b64encode(b"\x02" + (900).to_bytes(8, "big")).decode()
    cluster.group("app").offsets.committed[TopicPartition("other", 0)] = Committed(1, jvms)

    rig = WorkerRig(cluster, two_inputs).start()
    rig.until_running()
    assert rig.tasks["0_0"].task.stream_time == 900
    assert "another program has since committed {'other-0': 1}" in caplog.text
    cluster.produce("in", b"k", b"v", timestamp=5)
    rig.commit()
    rig.stop()
    assert outputs(cluster) == [("k", "700"), ("k", "900")]
    caplog.clear()
    WorkerRig(cluster, two_inputs).start().until_running()
    assert "ignoring the clocks" not in caplog.text, "the next commit was whole again"
