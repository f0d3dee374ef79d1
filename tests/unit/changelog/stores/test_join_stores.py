"""The stores of joins: unmatched rows, waiting stream records, foreign-key subscriptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedWrite
from logstate.changelog.stores.join_buffer import JoinBuffer
from logstate.changelog.stores.kinds import build_store
from logstate.changelog.stores.outer_join_buffer import OuterJoinBuffer
from logstate.changelog.stores.subscription import SubscriptionStore
from logstate.contracts.errors import StoreCorruptedError, StoreError
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import (
    CombinedKeySerde,
    Instruction,
    SideSerde,
    Subscription,
    SubscriptionSerde,
)

TEXT = serdes.string
OUTER = StoreSpec("s", "outer_join", TEXT, SideSerde(TEXT, serdes.int64))
BUFFER = StoreSpec("s", "join_buffer", TEXT, TEXT, grace_ms=10)
SUBSCRIPTIONS = StoreSpec(
    "s",
    "foreign_key_subscription",
    CombinedKeySerde(TEXT, TEXT, registration_topic="j-registration-topic"),
    SubscriptionSerde(TEXT),
)
KEYS = st.sampled_from(["a", "aa", "b", ""])
TIMES = st.integers(0, 40)


class Place:
    """As much of a task as these stores ask for."""

    def __init__(self) -> None:
        self.timestamp = 0
        self.headers: Headers = None
        self.topic: str | None = "in"
        self.partition = 0
        self.offset = 0
        self.cells: dict[str, TimeCell] = {}

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return f"app-{name}"

    def time_cell(self, name: str) -> TimeCell:
        return self.cells.setdefault(name, TimeCell())


class Opened:
    """A store over memory, with its changelog."""

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.place = Place()
        self.rows = Rows(b"s", MemoryBackend())
        self.writes = ChangelogWrites(is_logged=True, logs_every_write=True)
        context: Any = self.place
        self.store: Any = build_store(spec, self.rows, self.writes, context)

    def log(self) -> list[LoggedWrite]:
        return self.writes.take()

    def restored(self) -> Opened:
        other = Opened(self.spec)
        other.store.restore(self.log())
        return other


def outer(*added: tuple[int, bool, str, Any]) -> Opened:
    opened = Opened(OUTER)
    for row in added:
        opened.store.add(*row)
    return opened


def buffer(*put: tuple[str, str, int]) -> Opened:
    opened = Opened(BUFFER)
    for key, value, time in put:
        opened.store.put(key, value, time, None)
    return opened


def drained(opened: Opened) -> list[tuple[str, str, int]]:
    found = []
    for waiting in opened.store.expired():
        found.append((waiting.key, waiting.value, waiting.timestamp))
        opened.store.remove(waiting)
    return found


def test_the_kinds_have_their_classes():
    assert isinstance(outer().store, OuterJoinBuffer)
    assert isinstance(buffer().store, JoinBuffer)
    assert isinstance(Opened(SUBSCRIPTIONS).store, SubscriptionStore)


# ---------------------------------------------------------------------- unmatched rows


def test_unmatched_rows_come_by_time_right_before_left_then_by_key():
    opened = outer(
        (9, True, "a", "l"), (5, True, "b", "l"), (5, True, "a", "l"), (5, False, "c", 7)
    )

    assert list(opened.store.all()) == [
        (5, "right", "c", 7),
        (5, "left", "a", "l"),
        (5, "left", "b", "l"),
        (9, "left", "a", "l"),
    ]


def test_values_of_the_same_key_side_and_time_are_one_row_in_order_of_arrival():
    opened = outer((5, True, "a", "x"), (5, True, "a", ""))

    assert list(opened.store.rows()) == [(5, True, "a", ["x", ""])]
    assert [write.value for write in opened.log()] == [
        bytes.fromhex("0100000001" + "00000002" + "0178"),
        bytes.fromhex("0100000002" + "00000002" + "0178" + "00000001" + "01"),
    ]


def test_taking_out_what_does_not_wait_logs_nothing_but_removing_does():
    opened = outer()
    opened.store.take_out(5, True, "a")
    assert opened.log() == []
    opened.place.timestamp, opened.place.headers = 8, [("h", b"1")]
    opened.store.remove(5, True, "a")

    assert opened.log() == [LoggedWrite(bytes(7) + b"\x05\x01a", None, 8, None)]


def test_rows_that_leave_while_they_are_read_are_still_read():
    opened = outer((1, True, "a", "x"), (2, True, "a", "y"))
    seen = []
    for time, is_left, key, values in opened.store.rows():
        opened.store.remove(time, is_left, key)
        seen.append((time, values))

    assert seen == [(1, ["x"]), (2, ["y"])]
    assert list(opened.store.all()) == []


def test_a_foreign_row_is_refused_with_what_to_do():
    opened = outer()
    opened.store.restore([LoggedWrite(bytes(8) + b"\x01a", b"\x00\x00\x00\x00\x01x", 1)])
    with pytest.raises(StoreCorruptedError, match="reset"):
        list(opened.store.all())


@given(
    added=st.lists(st.tuples(TIMES, st.booleans(), KEYS, st.integers(0, 9)), max_size=20),
    taken=st.lists(st.tuples(TIMES, st.booleans(), KEYS), max_size=10),
)
def test_restored_unmatched_rows_are_those_of_the_model(added: Any, taken: Any):
    added = [(t, left, k, str(v) if left else v) for t, left, k, v in added]
    opened = outer(*added)
    for place in taken:
        opened.store.take_out(*place)
    expected = [
        (time, "left" if left else "right", key, value)
        for time, left, key, value in sorted(added, key=lambda r: (r[0], r[1], r[2].encode()))
        if (time, left, key) not in taken
    ]

    assert list(opened.store.all()) == expected
    assert list(opened.restored().store.all()) == expected


# ---------------------------------------------------------------------- waiting stream records


def test_a_record_leaves_once_the_clock_is_past_it_by_the_grace():
    opened = buffer(("b", "1", 20), ("a", "2", 20), ("a", "3", 21), ("c", "4", 29))
    assert drained(opened) == []
    opened.store.put("c", "5", 30, None)

    assert drained(opened) == [("a", "2", 20), ("b", "1", 20)]
    assert opened.store.num_records == 3
    assert opened.store.min_timestamp == 21


def test_a_record_that_is_too_late_is_not_taken():
    opened = buffer(("a", "1", 30))

    assert not opened.store.put("a", "2", 19, None)
    assert opened.store.put("a", "3", 20, None)
    assert drained(opened) == [("a", "3", 20)]


# Bytes that Kafka Streams 4.3 logged.
FIRST_RECORD = (
    "0000000000000067000000000000000000000001730000000000000000ffffffffffffffff"
    "0000000273320000000000000000"
)
SECOND_RECORD = (
    "000000000000005e0000000000000001000000017300000000000000020000000464726f7"
    "00000000278350000000168000000027834ffffffffffffffff0000000273330000000000000000"
)


def test_waiting_records_are_logged_in_kafka_streams_bytes():
    opened = Opened(BUFFER)
    opened.place.topic = "s"
    opened.store.put("b", "s2", 103, None)
    opened.place.offset = 1
    opened.store.put("b", "s3", 94, [("drop", b"x5"), ("h", b"x4")])

    assert [
        (write.key.hex(), (write.value or b"").hex(), *write[2:]) for write in opened.log()
    ] == [
        (
            "0000000000000000676200000001",
            FIRST_RECORD,
            None,
            None,
        ),
        (
            "00000000000000005e6200000002",
            SECOND_RECORD,
            None,
            None,
        ),
    ]


@given(records=st.lists(st.tuples(KEYS, st.text(max_size=2), TIMES), max_size=20))
def test_a_restored_buffer_goes_on_as_the_other_would_have(records: list[tuple[str, str, int]]):
    opened = Opened(BUFFER)
    for key, value, time in records:
        opened.store.put(key, value, time, None)
        drained(opened)
    restored = opened.restored()
    assert restored.store.num_records == opened.store.num_records
    for one in (opened, restored):
        one.store.put("end", "x", 100, None)

    assert drained(restored) == drained(opened)
    assert [w.key for w in restored.log()] == [w.key for w in opened.log()]


@given(
    records=st.lists(st.tuples(KEYS, st.text(max_size=2), TIMES), max_size=10),
    failed=st.tuples(KEYS, st.text(max_size=2), TIMES),
)
def test_a_rolled_back_record_leaves_no_trace_but_clocks(
    records: list[tuple[str, str, int]], failed: tuple[str, str, int]
):
    opened = buffer(*records)
    before = list(opened.rows.scan())
    opened.rows.begin_journal()
    opened.store.put(*failed, None)
    drained(opened)
    opened.rows.end_journal(rollback=True)

    assert list(opened.rows.scan()) == before


def test_a_record_that_comes_behind_a_replay_replaces_none_that_waits():
    """No cut names the numbers of an application that was taken over."""
    restored = buffer(("a", "1", 20), ("a", "2", 20)).restored()
    restored.store.put("a", "3", 20, None)
    restored.store.put("end", "x", 30, None)

    assert drained(restored) == [("a", "1", 20), ("a", "2", 20), ("a", "3", 20)]


def test_a_record_that_is_too_late_for_what_was_replayed_is_not_taken():
    assert not buffer(("a", "1", 30)).restored().store.put("a", "2", 19, None)


def test_what_a_replay_brings_may_be_older_than_all_that_waited():
    opened = buffer(("a", "1", 29), ("a", "2", 30))
    assert drained(opened) == []
    opened.store.restore(buffer(("b", "3", 20)).log())

    assert drained(opened) == [("b", "3", 20)]


# ---------------------------------------------------------------------- subscriptions


def subscription(primary_key: str) -> Subscription:
    return Subscription(None, Instruction.SUBSCRIBE_AND_ANSWER, primary_key, 0)


@given(held=st.lists(st.tuples(KEYS, KEYS), max_size=20), dropped=st.lists(st.tuples(KEYS, KEYS)))
def test_subscribers_are_found_by_their_foreign_key_alone(held: Any, dropped: Any):
    opened = Opened(SUBSCRIPTIONS)
    for foreign_key, primary_key in held:
        opened.store.put(foreign_key, subscription(primary_key))
    for foreign_key, primary_key in dropped:
        opened.store.delete(foreign_key, subscription(primary_key))
    left = set(held) - set(dropped)
    restored = opened.restored()

    for one in (opened, restored):
        assert one.store.num_records == len(left)
        for key in ("a", "aa", "b", ""):
            found = [s.primary_key for s in one.store.subscribers(key)]
            assert found == sorted(primary for foreign, primary in left if foreign == key)


# Bytes that Kafka Streams 4.3 logged.
def test_subscriptions_are_logged_in_kafka_streams_bytes():
    opened = Opened(SUBSCRIPTIONS)
    row_hash = bytes.fromhex("3b309d49dd6f18e456e9c27f0aee7337")
    opened.place.timestamp = 112
    opened.store.put("x", Subscription(row_hash, Instruction.SUBSCRIBE_AND_ANSWER_IF_FOUND, "a", 0))
    opened.store.delete("x", subscription("a"))

    assert [(w.key.hex(), w.value and w.value.hex(), w.timestamp) for w in opened.log()] == [
        ("000000017861", "01033b309d49dd6f18e456e9c27f0aee73376100000000", 112),
        ("000000017861", None, 112),
    ]


def test_a_subscription_store_without_combined_keys_is_refused():
    with pytest.raises(StoreError, match="CombinedKeySerde"):
        Opened(StoreSpec("s", "foreign_key_subscription", TEXT, SubscriptionSerde(TEXT)))
