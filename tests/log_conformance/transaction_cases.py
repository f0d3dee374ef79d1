"""Transactions: markers, isolation, fencing, offsets that commit with them."""

from __future__ import annotations

import pytest

from logstate.contracts.errors import AbortableError, BrokerError, FencedError, RetriableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from tests.log_conformance.rig import GroupMember, Rig, records


def a_commit_marker_takes_an_offset(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.commit(tp, b"a", b"b")
    rig.eventually(lambda: rig.end(tp) == 3)
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 3)
    assert [(r.offset(), r.value()) for r in reader.records] == [(0, b"a"), (1, b"b")]
    assert reader.read_to_end_notice(tp) == 3


def aborted_records_are_never_seen_and_positions_pass_them(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    producer = rig.producer()
    producer.begin()
    producer.produce(records(tp, b"lost", b"lost"))
    producer.flush()
    producer.abort()
    producer.begin()
    producer.produce(records(tp, b"kept"))
    producer.commit()
    rig.eventually(lambda: rig.end(tp) == 5)
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 5)
    assert reader.values == [b"kept"]


def a_tail_of_aborted_records_is_passed(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    producer = rig.producer()
    producer.begin()
    producer.produce(records(tp, b"lost"))
    producer.flush()
    producer.abort()
    rig.eventually(lambda: rig.end(tp) == 2)
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 2)
    assert reader.values == []


def readers_stop_before_an_open_transaction(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.write(tp, b"before")
    producer = rig.producer()
    producer.begin()
    producer.produce(records(tp, b"open"))
    producer.flush()
    rig.write(tp, b"after")
    reader = rig.reader({tp: 0})
    assert reader.read_to_end_notice(tp) == 1
    assert reader.values == [b"before"]
    assert rig.end(tp) == 3, "the read-uncommitted end covers what is not decided"
    producer.commit()
    reader.read_to(tp, 4)
    assert reader.values == [b"before", b"open", b"after"]


def a_flush_reports_the_next_offset_of_each_chosen_partition(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = rig.producer()
    producer.begin()
    producer.produce([*records(first, b"a", b"b"), *records(second, b"c")])
    assert producer.flush() == {first: 2, second: 1}
    producer.produce(records(first, b"d"))
    assert producer.flush() == {first: 3}
    producer.commit()


def an_empty_transaction_leaves_no_trace(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    producer = rig.producer()
    producer.begin()
    producer.commit()
    producer.begin()
    producer.abort()
    assert rig.end(tp) == 0


def a_new_owner_of_the_id_fences_the_old_one(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    identity = rig.name("tx")
    old = rig.producer(identity)
    old.begin()
    old.produce(records(tp, b"old"))
    old.flush()
    new = rig.producer(identity)
    with pytest.raises(FencedError):  # noqa: PT012  a client may hear of it at either call
        old.produce(records(tp, b"late"))
        old.commit()
    new.begin()
    new.produce(records(tp, b"new"))
    new.commit()
    reader = rig.reader({tp: 0})
    rig.eventually(lambda: reader.poll() and reader.values)
    assert reader.values == [b"new"]


def what_is_open_lies_behind_the_stable_offset(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    rig.commit(tp, b"done")
    producer = rig.producer()
    producer.begin()
    producer.produce(records(tp, b"open"))
    producer.flush()
    rig.eventually(lambda: rig.admin.stable_offsets([tp]) == {tp: 2})
    assert rig.end(tp) == 3
    producer.commit()
    rig.eventually(lambda: rig.admin.stable_offsets([tp]) == {tp: 4})


def initialising_aborts_what_was_left_open(rig: Rig) -> None:
    tp = TopicPartition(rig.topic(), 0)
    identity = rig.name("tx")
    old = rig.producer(identity)
    old.begin()
    old.produce(records(tp, b"left"))
    old.flush()
    rig.producer(identity)
    rig.eventually(lambda: rig.end(tp) == 2)
    reader = rig.reader({tp: 0})
    reader.read_to(tp, 2)
    assert reader.values == []


def offsets_commit_with_the_transaction(rig: Rig) -> None:
    member, tp = _joined(rig)
    rig.eventually(lambda: _committed(member, tp) == (None, ""))
    producer = rig.producer()
    producer.begin()
    producer.send_offsets({tp: (7, "cut")}, member.consumer.group_metadata())
    producer.commit()
    rig.eventually(lambda: _committed(member, tp) == (7, "cut"))


def offsets_of_an_aborted_transaction_are_void(rig: Rig) -> None:
    member, tp = _joined(rig)
    producer = rig.producer()
    producer.begin()
    producer.send_offsets({tp: (7, "")}, member.consumer.group_metadata())
    producer.abort()
    rig.eventually(lambda: _committed(member, tp) == (None, ""))


def committed_offsets_wait_for_an_open_transaction(rig: Rig) -> None:
    member, tp = _joined(rig)
    producer = rig.producer()
    producer.begin()
    producer.send_offsets({tp: (7, "")}, member.consumer.group_metadata())
    with pytest.raises(RetriableError):
        member.consumer.committed([tp], 0.5)
    producer.commit()
    rig.eventually(lambda: _committed(member, tp) == (7, ""))


def a_member_may_commit_what_it_does_not_own(rig: Rig) -> None:
    # The broker checks the member only, which is why ownership is checked by the engine itself.
    member, _ = _joined(rig)
    other = TopicPartition(rig.topic(), 0)
    producer = rig.producer()
    producer.begin()
    producer.send_offsets({other: (3, "")}, member.consumer.group_metadata())
    producer.commit()
    rig.eventually(lambda: _committed(member, other) == (3, ""))


def a_member_that_left_cannot_commit(rig: Rig) -> None:
    member, tp = _joined(rig)
    metadata = member.consumer.group_metadata()
    stays = rig.member(_group(rig, member), [tp.topic])
    rig.eventually(lambda: member.poll() and stays.poll() and stays.history)
    member.consumer.close()
    rig.eventually(lambda: stays.poll() and tp in stays.owned)
    producer = rig.producer()
    producer.begin()
    with pytest.raises(AbortableError):
        producer.send_offsets({tp: (7, "")}, metadata)
    producer.abort()
    rig.eventually(lambda: _committed(stays, tp) == (None, ""))


def long_metadata_is_refused(rig: Rig) -> None:
    member, tp = _joined(rig)
    producer = rig.producer()
    producer.begin()
    with pytest.raises(BrokerError):
        producer.send_offsets({tp: (1, "x" * 4097)}, member.consumer.group_metadata())
    producer.abort()


def keyed_and_keyless_records_share_a_transaction(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    producer = rig.producer()
    producer.begin()
    producer.produce([ProducedRecord(topic, None, key, b"v", 5) for key in (b"k", None, b"k")])
    producer.commit()
    reader = rig.reader({TopicPartition(topic, p): 0 for p in range(2)})
    rig.eventually(lambda: reader.poll() and len(reader.records) == 3)


def _joined(rig: Rig) -> tuple[GroupMember, TopicPartition]:
    topic = rig.topic(partitions=2)
    group = rig.name("group")
    member = rig.member(group, [topic])
    _GROUPS[id(member)] = group
    tp = TopicPartition(topic, 0)
    rig.eventually(lambda: member.poll() and tp in member.owned)
    return member, tp


_GROUPS: dict[int, str] = {}


def _group(rig: Rig, member: GroupMember) -> str:
    return _GROUPS[id(member)]


def _committed(member: GroupMember, tp: TopicPartition) -> tuple[int | None, str] | None:
    try:
        return tuple(member.consumer.committed([tp], 2.0)[tp])
    except RetriableError:
        return None


CASES = [
    a_commit_marker_takes_an_offset,
    aborted_records_are_never_seen_and_positions_pass_them,
    a_tail_of_aborted_records_is_passed,
    readers_stop_before_an_open_transaction,
    a_flush_reports_the_next_offset_of_each_chosen_partition,
    an_empty_transaction_leaves_no_trace,
    a_new_owner_of_the_id_fences_the_old_one,
    initialising_aborts_what_was_left_open,
    offsets_commit_with_the_transaction,
    offsets_of_an_aborted_transaction_are_void,
    committed_offsets_wait_for_an_open_transaction,
    a_member_may_commit_what_it_does_not_own,
    a_member_that_left_cannot_commit,
    long_metadata_is_refused,
    keyed_and_keyless_records_share_a_transaction,
]
