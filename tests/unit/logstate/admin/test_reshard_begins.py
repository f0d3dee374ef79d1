"""Where inputs begin that an application has not read before it was moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate import StreamsBuilder
from logstate.admin.reshard import Resharding
from logstate.admin.stopped_application import StoppedApplication
from logstate.changelog.cut import UNKNOWN_TIME_MS, Cut, decode_cut, encode_cut
from logstate.contracts.clients import Committed, run_steps
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest
from logstate.topics.store_moves import planned
from logstate.topology.plan.plan import Topology
from tests.campaigns.simulation.fake_logs import FakeLogReader, FakeLogs
from tests.unit.logstate.worker.worker_rig import send


def counted(topic: str) -> Topology:
    """The topic is read by tasks without state, and counted behind a repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream(topic, key=str, value=str)
    stream.group_by(lambda value: value, key=str, name="by-value").count(store="counts")
    return builder.build()


def counted_by_key(topic: str) -> Topology:
    """The topic is read by the tasks that count it."""
    builder = StreamsBuilder()
    builder.stream(topic, key=str, value=str).group_by_key().count(store="counts")
    return builder.build()


def _never(_: float) -> None:
    raise AssertionError("nobody is waited for")


def handed_over(
    cluster: FakeCluster,
    topic: str,
    committed: dict[TopicPartition, Committed],
    begin: Any,
    counted: Callable[[str], Topology] = counted,
) -> dict[TopicPartition, tuple[int, str]]:
    """The offsets with which an application goes on that has counted ``orders``."""
    logs = FakeLogs(FakeLogReader(cluster, cluster.process("move"), _never))
    application = StoppedApplication("shop", cluster, logs)
    before = run_steps(check_topics_of_others(application.admin, counted("orders"), "shop"))
    before = run_steps(prepare(application.admin, before, replication_factor=1, overrides={}))
    for entry in (stored := manifest(before))["stores"].values():
        entry["partitions"] = 2
    for entry in stored["topics"].values():
        entry["partitions"] = 2
    bound = run_steps(check_topics_of_others(application.admin, counted(topic), "shop"))
    moves = planned(bound, stored, list(cluster.topics))
    resharding = Resharding(application, counted(topic), begin, 1, {}, lambda _: None)
    resharding._make_topics(moves, {})
    of_tasks: Any = {move.sub_topology.id: {} for move in moves.tasks}
    offsets, _ = resharding._cuts(moves, of_tasks, committed)
    return offsets


def test_another_input_in_front_of_a_repartition_begins_where_it_is_told() -> None:
    cluster = FakeCluster({"orders": 3, "others": 4})
    send(cluster, "a", "b", topic="others")

    offsets = handed_over(cluster, "others", {}, "latest")

    found = {tp: one for tp, one in offsets.items() if tp.topic == "others"}
    ends = cluster.admin().end_offsets([TopicPartition("others", n) for n in range(4)])
    assert found == {tp: (end, "") for tp, end in ends.items()}
    assert sum(ends.values()) == 2


def test_partitions_that_were_read_go_on_where_they_were() -> None:
    cluster = FakeCluster({"orders": 3})
    committed = {TopicPartition("orders", n): Committed(5, "") for n in range(2)}

    offsets = handed_over(cluster, "orders", committed, "earliest")

    assert {tp for tp in offsets if tp.topic == "orders"} == {TopicPartition("orders", 2)}


def test_each_input_partition_goes_on_with_its_partition_time() -> None:
    cluster = FakeCluster({"orders": 4})
    orders = [TopicPartition("orders", n) for n in range(4)]
    times = {orders[0]: 1_234, orders[1]: 0}
    committed = {
        tp: Committed(5, encode_cut(Cut(5, {}), partition_time_ms=time_ms))
        for tp, time_ms in times.items()
    }
    # A note of another tool says nothing about times; the last partition was never read.
    committed[orders[2]] = Committed(7, "a note")

    offsets = handed_over(cluster, "orders", committed, "earliest", counted_by_key)

    assert {tp: offset for tp, (offset, _) in offsets.items()} == {
        orders[0]: 5,
        orders[1]: 5,
        orders[2]: 7,
        orders[3]: 0,
    }
    found = {
        tp: decode_cut(metadata, committed_offset=offset).partition_time_ms
        for tp, (offset, metadata) in offsets.items()
    }
    unknown = dict.fromkeys(orders[2:], UNKNOWN_TIME_MS)
    assert found == {**times, **unknown}
