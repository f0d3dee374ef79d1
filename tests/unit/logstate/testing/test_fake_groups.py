"""Groups of the fake cluster: silence, zombies, answers, the two protocols."""

from __future__ import annotations

from threading import Thread
from typing import Literal

from logstate.contracts.clock import ManualClock
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.consumers import FakeGroupConsumer
from tests.patience import PATIENCE_S


def a_cluster(
    protocol: Literal["consumer", "classic"] = "consumer", **options: object
) -> FakeCluster:
    return FakeCluster(
        {"input": 4},
        clock=ManualClock(0),
        group_protocol=protocol,
        session_timeout_ms=100,
        **options,  # type: ignore[arg-type]
    )


def joined(cluster: FakeCluster) -> FakeGroupConsumer:
    member = cluster.group_consumer(group_id="g", instance_id=None)
    member.subscribe(["input"], lambda _: None)
    return member


def changes(member: FakeGroupConsumer) -> list[tuple[str, list[int]]]:
    return [
        (r.kind, [tp.partition for tp in r.partitions]) for r in member.poll(10, 0.0).rebalances
    ]


def pass_time(cluster: FakeCluster, ms: int) -> None:
    assert isinstance(cluster.clock, ManualClock)
    cluster.clock.advance(ms)
    cluster.tick()


def test_a_partition_is_not_given_away_before_its_revocation_is_answered() -> None:
    cluster = a_cluster()
    first, second = joined(cluster), joined(cluster)
    assert changes(first) == [("assigned", [0, 1, 2, 3])]
    assert changes(second) == []
    assert changes(first) == [("revoked", [2, 3])]
    assert changes(second) == [], "the first member is still busy with its answer"
    assert changes(first) == []
    assert changes(second) == [("assigned", [2, 3])]


def test_with_the_classic_protocol_everybody_gives_up_everything() -> None:
    cluster = a_cluster("classic")
    first, second = joined(cluster), joined(cluster)
    assert changes(first) == [("assigned", [0, 1, 2, 3])]
    assert changes(second) == []
    assert changes(first) == [("revoked", [0, 1, 2, 3])]
    assert changes(second) == []
    assert changes(first) == [("assigned", [0, 1])]
    assert changes(second) == [("assigned", [2, 3])]


def test_a_silent_member_loses_its_partitions_and_hears_of_it_when_it_wakes() -> None:
    cluster = a_cluster()
    zombie, other = joined(cluster), joined(cluster)
    changes(zombie)
    changes(other)
    pass_time(cluster, 60)
    changes(other)
    pass_time(cluster, 60)
    assert changes(other) == [("assigned", [0, 1, 2, 3])]
    assert changes(zombie) == [("lost", [0, 1, 2, 3])]
    assert changes(zombie) == [], "it joins again, and waits for what the other gives up"
    assert changes(other) == [("revoked", [0, 1])]


def test_a_member_keeps_its_id_only_with_the_newer_protocol() -> None:
    for protocol, is_kept in (("consumer", True), ("classic", False)):
        cluster = a_cluster("consumer" if is_kept else "classic")
        member = joined(cluster)
        changes(member)
        before = member.member_id()
        pass_time(cluster, 101)
        changes(member)
        changes(member)
        assert (member.member_id() == before) is is_kept, protocol


def test_a_member_knows_its_id_before_it_joins_only_with_the_newer_protocol() -> None:
    for protocol in ("consumer", "classic"):
        member = a_cluster(protocol).group_consumer(group_id="g", instance_id=None)
        before = member.member_id()
        member.subscribe(["input"], lambda _: None)
        changes(member)
        assert (member.member_id() == before) is (protocol == "consumer")


def test_a_static_member_that_comes_back_replaces_itself() -> None:
    cluster = a_cluster()
    for _ in range(2):
        member = cluster.group_consumer(group_id="g", instance_id="slot-1")
        member.subscribe(["input"], lambda _: None)
        assert changes(member) == [("assigned", [0, 1, 2, 3])]
        member.close()
    assert len(cluster.group("g").members) == 1


def test_a_member_that_waits_when_its_process_is_killed_does_not_join_again() -> None:
    cluster = FakeCluster({"input": 1})  # on the machine's clock a poll waits
    life, group = cluster.process("one"), cluster.group("g")
    other = joined(cluster)
    assert changes(other) == [("assigned", [0])]
    member = life.group_consumer(group_id="g", instance_id="a second one, which has nothing")
    member.subscribe(["input"], lambda _: None)
    changes(member)
    died = []

    def wait() -> None:
        try:
            while True:
                member.poll(10, PATIENCE_S)
        except ProcessKilled:
            died.append(member)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    with cluster.lock:
        life.kill()
        group.leave(member.member_id())
        cluster.notify()
    thread.join(PATIENCE_S)
    assert died == [member]
    assert list(group.members) == [other.member_id()]


def test_free_partitions_may_come_one_by_one() -> None:
    cluster = a_cluster(splits_assignments=True, seed=3)
    member = joined(cluster)
    portions = [changes(member) for _ in range(20)]
    given = [p for portion in portions for _, partitions in portion for p in partitions]
    assert sorted(given) == [0, 1, 2, 3]
    assert len([portion for portion in portions if portion]) > 1


def test_a_new_topic_is_given_out_too() -> None:
    cluster = a_cluster()
    member = cluster.group_consumer(group_id="g", instance_id=None)
    member.subscribe(["input", "later"], lambda _: None)
    changes(member)
    cluster.create_topic("later", 1)
    assert [r.partitions for r in member.poll(10, 0.0).rebalances] == [[TopicPartition("later", 0)]]
