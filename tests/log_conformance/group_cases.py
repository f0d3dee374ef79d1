"""Groups: who gets which partition, and what a member reads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from logstate.contracts.clients import Committed
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from tests.log_conformance.rig import GroupMember, Rig, records, together
from tests.patience import PATIENCE_S


def a_single_member_gets_everything(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and len(member.owned) == 3)
    assert member.consumer.member_id()


def two_members_share_and_numbers_stay_together(rig: Rig) -> None:
    left, right = rig.topic(partitions=4), rig.topic(partitions=4)
    members = _two_members(rig, [left, right])
    first, second = members
    assert len(first.owned) == len(second.owned) == 4
    assert not first.owned & second.owned
    for member in members:
        numbers = [sorted(p for t, p in member.owned if t == topic) for topic in (left, right)]
        assert numbers[0] == numbers[1], "equal partition numbers of both topics go together"


def the_first_member_is_asked_before_it_loses_partitions(rig: Rig) -> None:
    first, second = _two_members(rig, [rig.topic(partitions=4)])
    revoked = [r for r in first.history if r.kind == "revoked" and r.partitions]
    assert revoked
    assert second.owned <= {tp for r in revoked for tp in r.partitions}
    assert all(r.kind != "lost" for m in (first, second) for r in m.history)


def a_member_that_leaves_hands_everything_over(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    first, second = _two_members(rig, [topic])
    first.consumer.close()
    rig.eventually(lambda: second.poll() and len(second.owned) == 2)


def members_that_ask_the_group_all_the_time_share_as_others_do(rig: Rig) -> None:
    topic, group = rig.topic(partitions=4), rig.name("group")
    members = [rig.member(group, [topic]) for _ in range(2)]

    def ask_and_share() -> bool:
        for member in members:
            member.consumer.ask_group()
        together(members)
        return all(len(member.owned) == 2 for member in members)

    rig.eventually(ask_and_share)
    ids = [member.consumer.member_id() for member in members]
    for _ in range(5):
        ask_and_share()
    assert [member.consumer.member_id() for member in members] == ids
    assert all(r.kind != "lost" for member in members for r in member.history)


def a_static_member_that_goes_for_good_hands_everything_over(rig: Rig) -> None:
    first, second = _two_members(rig, [rig.topic(partitions=2)], static=True)
    elsewhere = rig.topic()
    with ThreadPoolExecutor(1) as beside:  # an eager group waits for an answer of every member
        gone = beside.submit(first.consumer.give_up, elsewhere, PATIENCE_S)
        rig.eventually(lambda: second.poll() and len(second.owned) == 2)
        gone.result()
    first.consumer.close()


def a_static_member_that_only_closes_keeps_its_partitions(rig: Rig) -> None:
    topic, group = rig.topic(partitions=2), rig.name("group")
    first, second = _two_members(rig, [topic], static=True, group=group)
    (owned,) = first.owned
    first.consumer.close()
    for _ in range(5):
        second.poll()
    assert len(second.owned) == 1
    again = rig.member(group, [topic], "static-0")
    members = [again, second]

    def is_back() -> bool:
        together(members)
        return again.owned == {owned} and len(second.owned) == 1

    rig.eventually(is_back)


def offsets_can_be_looked_at_although_they_are_not_stable(rig: Rig) -> None:
    topic, group = rig.topic(partitions=2), rig.name("group")
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    member = rig.member(group, [topic])
    rig.eventually(lambda: member.poll() and len(member.owned) == 2)
    producer = rig.producer()
    for offset, text in ((0, "old"), (1, "new")):
        producer.begin()
        producer.send_offsets({one: (offset, text)}, member.consumer.group_metadata())
        if text == "old":
            producer.commit()
    wanted = {one: Committed(0, "old"), other: Committed(None, "")}
    rig.eventually(lambda: _committed_so_far(rig, group, [one, other]) == wanted)
    with pytest.raises(RetriableError):
        member.consumer.committed([one], 0.5)
    producer.abort()


def nothing_is_read_before_the_start(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    rig.write(tp, b"a", b"b")
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and tp in member.owned)
    together([member] * 3)
    assert member.records == []
    member.consumer.start({tp: 1})
    rig.eventually(lambda: member.poll() and member.records)
    assert [r.offset() for r in member.records] == [1]


def a_start_goes_back_too(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    rig.write(tp, b"a", b"b")
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and tp in member.owned)
    member.consumer.start({tp: 0})
    rig.eventually(lambda: member.poll() and len(member.records) == 2)
    member.consumer.start({tp: 0})
    rig.eventually(lambda: member.poll() and len(member.records) == 4)
    assert [r.offset() for r in member.records] == [0, 1, 0, 1]


def a_pause_over_markers_skips_no_record(rig: Rig) -> None:
    """What was fetched before a pause has no effect on where the partition continues."""
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    producer = rig.producer()
    for number in range(20):
        producer.begin()
        producer.produce(records(tp, b"%d" % number))
        producer.flush()
        producer.commit()
    member = rig.member(rig.name("group"), [topic])
    consumer = member.consumer
    rig.eventually(lambda: member.poll() and tp in member.owned)
    for _ in range(3):
        member.records.clear()
        consumer.start({tp: 0})
        rig.eventually(lambda: consumer.poll(1, rig.poll_s).records)
        for _ in range(5):
            for _ in range(20):  # meanwhile the client fetches the others
                rig.end(tp)
            consumer.pause([tp])
            consumer.resume([tp])
            member.records += consumer.poll(1, 0).records.get(tp, [])
        rig.eventually(lambda: member.poll() and 38 in [r.offset() for r in member.records])
        assert [r.offset() for r in member.records] == [*range(2, 40, 2)]


def a_start_outside_the_log_is_told_and_can_be_mended(rig: Rig) -> None:
    """A partition whose position retention overtook is no worse afterwards than any other."""
    member, one, other = _beside_a_cut_log(rig)
    member.consumer.start({one: 1})
    rig.eventually(lambda: one in member.poll().out_of_range)
    member.consumer.start({one: 7})
    rig.write(other, b"z")
    rig.eventually(lambda: member.poll() and len(member.records) == 6)
    found = sorted((r.partition(), r.offset()) for r in member.records)
    assert found == [(0, 7), (0, 8), (0, 9), (1, 0), (1, 1), (1, 2)]


def a_start_that_mends_one_nobody_has_heard_of_is_kept(rig: Rig) -> None:
    """The client may know that a position is outside the log before anyone has polled it."""
    member, one, other = _beside_a_cut_log(rig)
    for _ in range(10):
        member.consumer.start({one: 1})
        rig.write(other, b"z")  # takes the broker as long as an answer to the client
    member.consumer.start({one: 7})
    told: dict[TopicPartition, int] = {}
    rig.eventually(lambda: told.update(member.poll().out_of_range) or len(member.records) == 15)
    assert [r.offset() for r in member.records if r.partition() == 0] == [7, 8, 9]
    assert not told


def mending_a_partition_moves_no_other(rig: Rig) -> None:
    """However often it is done, and also where the other one was sent back and not read since."""
    member, one, other = _beside_a_cut_log(rig)
    for below_the_start in (1, 2, 3):
        member.consumer.start({one: below_the_start})
        rig.eventually(lambda: one in member.poll().out_of_range)
    rig.write(other, b"z")
    rig.eventually(lambda: member.poll() and len(member.records) >= 3)
    member.consumer.start({other: 1})
    member.consumer.start({one: 8})
    rig.eventually(lambda: member.poll() and len(member.records) >= 7)
    together([member] * 3)
    found = [(r.partition(), r.offset()) for r in member.records]
    assert found[:3] == [(1, 0), (1, 1), (1, 2)]
    assert sorted(found[3:]) == [(0, 8), (0, 9), (1, 1), (1, 2)]


def a_paused_partition_brings_nothing_until_it_is_resumed(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and tp in member.owned)
    member.consumer.start({tp: 0})
    member.consumer.pause([tp])
    rig.write(tp, b"a")
    together([member] * 3)
    assert member.records == []
    member.consumer.resume([tp])
    rig.eventually(lambda: member.poll() and member.records)


def a_member_that_stays_loses_no_record_and_no_order(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and tp in member.owned)
    member.consumer.start({tp: 0})
    values = [str(number).encode() for number in range(30)]
    rig.write(tp, *values)

    def stay_and_poll() -> bool:
        for _ in range(3):  # each may bring a record, which is the next poll's
            member.consumer.stay(lambda: True)
        member.poll()
        return len(member.records) >= len(values)

    rig.eventually(stay_and_poll)
    assert [record.value() for record in member.records] == values


def a_member_does_not_stay_for_whoever_has_moved_on(rig: Rig) -> None:
    member = rig.member(rig.name("group"), [rig.topic()])
    rig.eventually(lambda: member.poll() and member.owned)
    asked: list[bool] = []
    member.consumer.stay(lambda: bool(asked.append(True)))
    rig.eventually(lambda: asked)
    assert member.poll().rebalances == []


def a_probe_is_answered_and_hears_no_complaint(rig: Rig) -> None:
    probe = rig.cluster.probe()
    assert probe.ask(PATIENCE_S)
    assert not probe.client_errors().is_refusal
    assert probe.brokers
    probe.close()


def members_see_committed_records_only(rig: Rig) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    producer = rig.producer()
    producer.begin()
    producer.produce([])
    producer.abort()
    rig.commit(tp, b"a")
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and tp in member.owned)
    member.consumer.start({tp: 0})
    ends: list[tuple[TopicPartition, int]] = []
    rig.eventually(lambda: ends.extend(member.poll().ends) or (tp, 2) in ends)
    assert [r.value() for r in member.records] == [b"a"]


def _committed_so_far(
    rig: Rig, group: str, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, Committed]:
    try:
        return rig.admin.committed_so_far(group, partitions)
    except RetriableError:  # it took too long
        return {}


def _beside_a_cut_log(rig: Rig) -> tuple[GroupMember, TopicPartition, TopicPartition]:
    """A member, a partition that begins at 5 and ends at 10, and another whose two are read."""
    topic = rig.topic(partitions=2)
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    rig.write(one, *(b"%d" % n for n in range(10)))
    rig.write(other, b"x", b"y")
    rig.admin.delete_records({one: 5})
    member = rig.member(rig.name("group"), [topic])
    rig.eventually(lambda: member.poll() and len(member.owned) == 2)
    member.consumer.start({other: 0})
    rig.eventually(lambda: member.poll() and len(member.records) == 2)
    return member, one, other


def _two_members(
    rig: Rig, topics: list[str], *, static: bool = False, group: str | None = None
) -> list[GroupMember]:
    group = group or rig.name("group")
    names = ("static-0", "static-1") if static else (None, None)
    first = rig.member(group, topics, names[0])
    rig.eventually(lambda: first.poll() and first.owned)
    second = rig.member(group, topics, names[1])
    members = [first, second]

    def is_balanced() -> bool:
        together(members)
        return bool(second.owned) and len(first.owned) == len(second.owned)

    rig.eventually(is_balanced)
    return members


CASES = [
    a_single_member_gets_everything,
    two_members_share_and_numbers_stay_together,
    the_first_member_is_asked_before_it_loses_partitions,
    a_member_that_leaves_hands_everything_over,
    members_that_ask_the_group_all_the_time_share_as_others_do,
    a_static_member_that_goes_for_good_hands_everything_over,
    a_static_member_that_only_closes_keeps_its_partitions,
    offsets_can_be_looked_at_although_they_are_not_stable,
    nothing_is_read_before_the_start,
    a_start_goes_back_too,
    a_pause_over_markers_skips_no_record,
    a_start_outside_the_log_is_told_and_can_be_mended,
    a_start_that_mends_one_nobody_has_heard_of_is_kept,
    mending_a_partition_moves_no_other,
    a_paused_partition_brings_nothing_until_it_is_resumed,
    members_see_committed_records_only,
    a_member_that_stays_loses_no_record_and_no_order,
    a_member_does_not_stay_for_whoever_has_moved_on,
    a_probe_is_answered_and_hears_no_complaint,
]
