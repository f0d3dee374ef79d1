"""A record whose results the brokers refuse is found by replays, and answered like any other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import FencedError, ProductionError, RefusedError
from logstate.contracts.records import RecordMetadata
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    retry,
    skip,
)
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

BIG = "x" * 300


@pytest.fixture
def cluster() -> FakeCluster:
    return narrow()


def narrow(**options: Any) -> FakeCluster:
    """Records of "out" have at most 200 bytes."""
    cluster = cluster_of({"in": 1, "dead": 1}, **options)
    cluster.create_topic("out", 1, {"max.message.bytes": "200"})
    return cluster


def copied(builder: StreamsBuilder) -> None:
    """Counts per key, which is logged, and every record to "out"."""
    stream = builder.stream("in", key=str, value=str)
    stream.group_by_key().count(store="counts")
    stream.to("out")


def running(cluster: FakeCluster, handler: Any, declare: Any = copied, **options: Any) -> WorkerRig:
    handlers = ErrorHandlers(production=handler, dead_letter_topic="dead", **options)
    rig = WorkerRig(cluster, declare, error_handlers=handlers)
    return rig.start().until_running()


def settle(rig: WorkerRig, turns: int = 60) -> None:
    """Until everything is processed and committed, however often it takes."""
    for _ in range(turns):
        rig.clock.advance(100)
        rig.turn()


def keys(cluster: FakeCluster) -> list[str | None]:
    return [key for key, _ in outputs(cluster)]


def put(cluster: FakeCluster, *sent: tuple[str, str]) -> None:
    for key, value in sent:
        time = 1 + cluster.topic("in").logs[0].end
        cluster.produce("in", key.encode(), value.encode(), timestamp=time)


# --- the answers ----------------------------------------------------------------------------------


def shouted(value: str) -> str:
    return value.upper()


def test_without_a_handler_the_application_stops_and_says_of_which_record_and_function(
    cluster: FakeCluster,
) -> None:
    def shouting(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.map_values(shouted, value=str, name="shout").to("out")

    rig = WorkerRig(cluster, shouting).start().until_running()
    put(cluster, ("a", "1"), ("b", "2"), ("c", BIG), ("d", "4"))
    with pytest.raises(RefusedError, match=r"max\.message\.bytes") as caught:
        settle(rig)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.node) == ("in", 0, 2, "shout")
    assert "shouted at tests/unit/logstate/worker/test_poison_record.py:" in str(error.function)
    assert "301 bytes to 'out'" in str(error)
    assert isinstance(error.__cause__, RefusedError)
    assert outputs(cluster) == [("a", "1"), ("b", "2")]  # and nothing past it


@pytest.mark.parametrize("buffers_sends", [False, True], ids=["at once", "at the flush"])
@pytest.mark.parametrize("bad", [0, 3, 6])
def test_the_record_is_skipped_and_no_other(bad: int, buffers_sends: bool) -> None:
    cluster = narrow(buffers_sends=buffers_sends)
    rig = running(cluster, skip)
    put(cluster, *((key, BIG if i == bad else "v") for i, key in enumerate("abcdefg")))
    settle(rig)
    assert keys(cluster) == [key for i, key in enumerate("abcdefg") if i != bad]
    counts = {key: row.value for key, row in rig.store("0_0", "counts").all()}
    assert counts == {key: 1 for i, key in enumerate("abcdefg") if i != bad}
    assert rig.tasks["0_0"].task.skipped_total == 1
    assert cluster.committed_offset("app", "in") == cluster.topic("in").logs[0].end


def test_several_such_records_are_found_one_after_the_other(cluster: FakeCluster) -> None:
    rig = running(cluster, skip)
    put(cluster, *((f"k{i}", BIG if i % 7 == 3 else "v") for i in range(40)))
    settle(rig, 300)
    assert keys(cluster) == [f"k{i}" for i in range(40) if i % 7 != 3]


def test_a_thousand_records_take_few_aborts(cluster: FakeCluster) -> None:
    rig = running(cluster, skip)
    put(cluster, *((f"k{i}", BIG if i == 700 else "v") for i in range(1_000)))
    settle(rig, 100)
    assert len(keys(cluster)) == 999
    assert rig.total("transactions_aborted_total") < 25


def test_a_dead_letter_is_the_record_itself_in_the_transaction_of_its_offset(
    cluster: FakeCluster,
) -> None:
    rig = running(cluster, dead_letter)
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    settle(rig)
    (letter,) = cluster.records("dead")
    assert (letter.key(), letter.value()) == (b"b", BIG.encode())
    headers = dict(letter.headers() or ())
    assert (headers["__streams.errors.topic"], headers["__streams.errors.offset"]) == (b"in", b"1")
    assert b"max.message.bytes" in (headers["__streams.errors.message"] or b"")
    assert keys(cluster) == ["a", "c"]


def test_the_handler_may_still_stop_the_application_and_the_record_is_named(
    cluster: FakeCluster,
) -> None:
    heard: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        heard.append(record)
        return retry(1, backoff=timedelta(0))(record)

    rig = running(cluster, remember)
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    with pytest.raises(
        ProductionError, match="the result of the record at 'in', partition 0, offs"
    ):
        settle(rig)
    (record,) = heard
    assert record.source is not None
    assert (record.stage, record.source.offset, record.value) == ("production", 1, BIG.encode())
    assert keys(cluster) == ["a"]


def test_the_state_is_kept_and_the_results_left_out_on_request(cluster: FakeCluster) -> None:
    rig = running(cluster, skip, on_skip="keep")
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    settle(rig)
    assert keys(cluster) == ["a", "c"]
    assert rig.store("0_0", "counts").get("b").value == 1


def test_a_retried_record_waits_and_is_tried_again(cluster: FakeCluster) -> None:
    rig = running(cluster, retry(3, backoff=timedelta(seconds=1)))
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    settle(rig, 15)
    assert keys(cluster) == ["a"]
    cluster.topic("out").bytes_max = 1_000
    settle(rig)
    assert keys(cluster) == ["a", "b", "c"]


def test_a_retried_record_is_tried_as_often_as_the_handler_says(cluster: FakeCluster) -> None:
    rig = running(cluster, retry(3, backoff=timedelta(milliseconds=200), then=skip))
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    settle(rig)
    assert keys(cluster) == ["a", "c"]


def test_a_dead_letter_that_is_refused_too_stops_the_application(cluster: FakeCluster) -> None:
    cluster.topic("dead").bytes_max = 200
    rig = running(cluster, dead_letter)
    put(cluster, ("a", "1"), ("b", BIG))
    with pytest.raises(ProductionError, match="offset 1"):
        settle(rig)
    assert keys(cluster) == ["a"]


# --- other causes than a record's output ----------------------------------------------------------


def test_a_row_that_its_changelog_refuses_is_never_written(cluster: FakeCluster) -> None:
    def joined(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.reduce(lambda old, new: old + new, store="texts")

    rig = running(cluster, skip, joined)
    cluster.topic("app-texts-changelog").bytes_max = 400
    put(cluster, ("a", "1"), ("a", BIG), ("a", BIG), ("a", "2"))
    settle(rig)
    assert rig.store("0_0", "texts").get("a").value == "1" + BIG + "2"


def test_results_held_back_for_the_commit_lead_to_their_record(cluster: FakeCluster) -> None:
    def held(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        table = grouped.reduce(lambda old, new: old + new, store="texts", emit="commit")
        table.to_stream().to("out")

    rig = running(cluster, skip, held)
    put(cluster, ("a", "1"), ("b", BIG), ("c", "3"))
    settle(rig)
    assert sorted(outputs(cluster)) == [("a", "1"), ("c", "3")]
    assert rig.store("0_0", "texts").get("b") is None


def test_other_tasks_lose_and_double_nothing() -> None:
    cluster = cluster_of({"in": 3})
    cluster.create_topic("out", 1, {"max.message.bytes": "200"})
    rig = running(cluster, skip)
    for i in range(30):
        value = BIG if i == 13 else "v"
        cluster.produce("in", f"k{i}".encode(), value.encode(), timestamp=i, partition=i % 3)
    settle(rig, 100)
    assert sorted(keys(cluster), key=str) == sorted(f"k{i}" for i in range(30) if i != 13)


def test_refusals_are_no_faults_of_transactions() -> None:
    cluster = narrow()
    handlers = ErrorHandlers(production=skip)
    rig = WorkerRig(cluster, copied, error_handlers=handlers, aborts_max=1)
    rig.start().until_running()
    put(cluster, *((f"k{i}", BIG if i % 2 else "v") for i in range(10)))
    settle(rig, 100)
    assert len(keys(cluster)) == 5


def test_a_handler_costs_a_healthy_flow_nothing_but_the_journal(cluster: FakeCluster) -> None:
    rig = running(cluster, skip, counted)
    send(cluster, *"abca")
    rig.commit()
    assert outputs(cluster) == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")]
    assert rig.total("transactions_aborted_total") == 0


def test_a_record_is_not_blamed_for_what_another_task_sent_after_its_part_was_aborted() -> None:
    cluster = cluster_of({"in": 2, "dead": 1})
    cluster.create_topic("out", 1, {"max.message.bytes": "200"})
    rig = running(cluster, skip)
    search = rig.worker._poison_search
    fenced = []

    def fence(step: Step) -> None:
        """The first part of a single record, a good one; the other task gets a bad one."""
        part = search._part
        if not fenced and part is not None and part.records == 1 and step.name == "flush":
            fenced.append(part.last)
            cluster.produce("in", b"other", BIG.encode(), timestamp=9, partition=0)
            raise FencedError("another process uses this transactional id")

    rig.before = fence
    for time, (key, value) in enumerate([("a", "v"), ("b", BIG)]):
        cluster.produce("in", key.encode(), value.encode(), timestamp=time, partition=1)
    settle(rig, 200)
    assert fenced == [[RecordMetadata("in", 1, 0)]]
    assert keys(cluster) == ["a"]
    assert [owned.task.skipped_total for owned in rig.tasks.values()] == [1, 1]


def of_two_topics(builder: StreamsBuilder) -> None:
    """One task reads both, by event time."""
    both = builder.stream("in", key=str, value=str).merge(
        builder.stream("other", key=str, value=str)
    )
    both.to("out")


def two_topics() -> FakeCluster:
    cluster = cluster_of({"in": 1, "other": 1, "dead": 1})
    cluster.create_topic("out", 1, {"max.message.bytes": "200"})
    return cluster


def test_records_that_come_during_the_search_do_not_count_as_suspects() -> None:
    """The suspects of each partition count apart: another one may be past its own."""
    cluster = two_topics()
    rig = running(cluster, skip, of_two_topics)
    sent: list[str] = []

    def send_earlier_ones(step: Step) -> None:
        """Behind the first suspect, of its partition, each before the record that is refused."""
        if step.name == "commit" and len(sent) < 5:
            sent.append(f"more{len(sent)}")
            time = 1 + len(sent)
            cluster.produce("in", sent[-1].encode(), b"v", timestamp=time, partition=0)

    cluster.produce("in", b"first", b"v", timestamp=1)
    cluster.produce("other", b"bad", BIG.encode(), timestamp=1_000)
    cluster.produce("other", b"last", b"v", timestamp=1_001)
    rig.before = send_earlier_ones
    settle(rig, 200)
    assert sorted(keys(cluster), key=str) == sorted(["first", *sent, "last"])
    assert rig.tasks["0_0"].task.skipped_total == 1
    # The transaction of all three, and the record on its own.
    assert rig.total("transactions_aborted_total") == 2


def test_a_commit_exactly_before_the_refused_record_keeps_the_decision() -> None:
    cluster = two_topics()
    heard: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        """Another partition has a record before it, which is committed before the replay."""
        heard.append(record)
        cluster.produce("other", b"earlier", b"v", timestamp=2)
        return skip(record)

    rig = running(cluster, remember, of_two_topics)
    cluster.produce("other", b"first", b"v", timestamp=1)
    cluster.produce("in", b"bad", BIG.encode(), timestamp=1_000)
    cluster.produce("in", b"last", b"v", timestamp=1_001)
    settle(rig, 200)
    assert [record.source for record in heard] == [RecordMetadata("in", 0, 0)]
    assert keys(cluster) == ["first", "earlier", "last"]
    assert rig.tasks["0_0"].task.skipped_total == 1


def test_attempts_are_counted_over_commits_exactly_before_the_refused_record() -> None:
    cluster = two_topics()
    attempts: list[int] = []

    def twice(record: FailedRecord) -> Decision:
        attempts.append(record.attempt)
        cluster.produce("other", b"earlier", b"v", timestamp=len(attempts))
        return retry(3, backoff=timedelta(0), then=skip)(record)

    rig = running(cluster, twice, of_two_topics)
    cluster.produce("in", b"bad", BIG.encode(), timestamp=1_000)
    settle(rig, 200)
    assert attempts == [1, 2, 3]
    assert keys(cluster) == ["earlier"] * 3


def test_where_a_function_is_called_is_seen_from_beside_in_the_search_too(
    cluster: FakeCluster,
) -> None:
    """Who is not seen there is not polled beside, and a slow function costs the membership."""
    seen = []

    def noted(value: str) -> str:
        seen.append(rig.worker.processing.place())
        return value

    def noting(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).map_values(noted).to("out", value=str)

    rig = running(cluster, skip, noting)
    put(cluster, ("a", "1"), ("b", BIG), ("c", "1"))
    settle(rig)
    assert keys(cluster) == ["a", "c"]
    assert len(seen) > 3  # some of them again
    assert None not in seen
