from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.suppress_values import BufferedUpdate, decode_update, encode_update
from logstate.changelog.rows.writes import ChangelogWrites, LoggedWrite
from logstate.changelog.stores.suppress_buffer import SuppressBuffer
from logstate.contracts.errors import RestoreError
from logstate.contracts.stores import StoreSpec

SPEC = StoreSpec("sup-store", "suppress_buffer", serdes.string, serdes.string)


class Place:
    """As much of a task as the buffer asks for."""

    topic: str | None = "tab"
    partition = 0
    offset = 0

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return f"app-{name}"


class Opened:
    """A buffer over memory."""

    def __init__(self, backend: MemoryBackend | None = None) -> None:
        self.place = Place()
        self.backend = backend or MemoryBackend()
        self.rows = Rows(b"s", self.backend)
        self.writes = ChangelogWrites(is_logged=True, logs_every_write=True)
        context: Any = self.place
        self.buffer: SuppressBuffer[str, str] = SuppressBuffer(
            SPEC, self.rows, self.writes, context
        )

    def put(self, key: str, new: str | None, time: int, old: str | None = None) -> None:
        self.buffer.put(key, new, old, time, time, None)

    def commit(self) -> list[LoggedWrite]:
        layer = self.rows.freeze()
        self.rows.committed(layer)
        return self.writes.take()

    def drain(self) -> list[tuple[str, str | None]]:
        found = []
        while (first := self.buffer.first()) is not None:
            found.append((first.key, first.new))
            self.buffer.remove_first()
        return found


def test_an_update_of_a_waiting_key_keeps_its_place():
    opened = Opened()
    opened.put("b", "1", 10)
    opened.put("a", "2", 11)
    opened.put("b", "3", 12, old="1")

    assert (opened.buffer.num_records, opened.buffer.min_timestamp) == (2, 10)
    assert opened.drain() == [("b", "3"), ("a", "2")]
    assert (opened.buffer.num_records, opened.buffer.min_timestamp) == (0, 2**63)


def test_equal_buffer_times_leave_in_the_order_of_key_bytes():
    opened = Opened()
    for key in ("b", "aa", "a", ""):
        opened.put(key, "x", 10)

    assert [key for key, _ in opened.drain()] == ["", "a", "aa", "b"]


def test_a_row_leaves_with_the_old_value_of_its_last_update_and_the_place_of_its_record():
    opened = Opened()
    opened.buffer.put("a", "2", "1", 10, 10, [("h", b"1")])
    opened.place.offset, opened.place.topic = 7, "other"
    opened.buffer.put("a", "3", "2", 11, 11, [("h", b"2")])

    first = opened.buffer.first()
    assert first is not None
    assert first == ("a", "3", "2", 11, [("h", b"2")], "other", 0, 7)


def test_the_prior_value_is_that_from_before_the_key_came_into_the_buffer():
    opened = Opened()
    opened.put("a", "2", 10, old="1")
    opened.put("a", "3", 11, old="2")
    opened.put("b", "3", 11)

    assert opened.buffer.prior("a") == (True, "1")
    assert opened.buffer.prior("b") == (True, None)
    assert opened.buffer.prior("c") == (False, None)


# Bytes that Kafka Streams 4.3 logged.
def test_logged_bytes_are_kafka_streams():
    opened = Opened()
    opened.place.offset = 12
    opened.put("c", "x|6", 115, old="x|5")
    first = opened.commit()
    opened.place.offset = 13
    opened.put("c", "x|8", 115, old="x|6")

    second = opened.commit()

    place = "0000000000000073000000000000000c00000003746162" + "00000000" + "00000000"
    assert [(w.key, w.value.hex(), w.timestamp, w.headers) for w in first if w.value] == [
        (
            b"c",
            place + "00000003787c35" + "fffffffe" + "00000003787c36" + "0000000000000073",
            None,
            [("v", b"\x03")],
        )
    ]
    assert [w.value.hex() for w in second if w.value] == [
        place.replace("0c00000003", "0d00000003")
        + "00000003787c35"
        + "00000003787c36"
        + "00000003787c38"
        + "0000000000000073"
    ]


def test_a_key_is_logged_once_per_commit_and_as_null_once_it_left():
    opened = Opened()
    opened.put("a", "1", 10)
    opened.put("a", "2", 10)
    assert len(opened.commit()) == 1
    opened.put("b", "1", 11)
    opened.buffer.remove_first()
    opened.buffer.remove_first()

    assert [(w.key, w.value, w.timestamp, w.headers) for w in opened.commit()] == [
        (b"b", None, None, None),
        (b"a", None, None, None),
    ]


def test_a_rollback_takes_the_order_back():
    opened = Opened()
    opened.put("a", "1", 10)
    opened.rows.begin_journal()
    opened.buffer.remove_first()
    opened.put("b", "1", 5)
    assert opened.buffer.min_timestamp == 5
    opened.rows.end_journal(rollback=True)

    assert opened.buffer.min_timestamp == 10
    assert opened.drain() == [("a", "1")]


def test_what_was_discarded_never_leaves():
    opened = Opened()
    opened.put("a", "1", 10)
    opened.commit()
    opened.buffer.remove_first()
    opened.put("b", "1", 5)
    opened.rows.discard()

    assert opened.drain() == [("a", "1")]


def test_a_restored_buffer_continues_where_it_was():
    opened, restored = Opened(), Opened()
    opened.put("a", "1", 10)
    opened.put("b", "2", 9)
    log = opened.commit()
    opened.put("c", "3", 8)
    opened.buffer.remove_first()
    opened.put("a", "4", 20, old="1")
    log += opened.commit()

    restored.buffer.restore(log)

    assert restored.writes.take() == []
    assert restored.buffer.size_bytes == opened.buffer.size_bytes
    assert restored.drain() == opened.drain() == [("b", "2"), ("a", "4")]


@pytest.mark.parametrize("was_aborted", [False, True])
def test_what_another_let_wait_leaves_in_its_turn_after_a_replay(was_aborted: bool):
    """The order is in memory and is built anew, also where rows were changed as often before."""
    opened, other = Opened(), Opened()
    opened.put("a", "1", 10)
    opened.commit()
    if was_aborted:
        opened.put("b", "2", 5)
        opened.rows.discard()
    other.put("c", "3", 7)

    opened.buffer.restore(other.commit())

    assert (opened.buffer.num_records, opened.buffer.min_timestamp) == (2, 7)
    assert opened.drain() == [("c", "3"), ("a", "1")]


def test_an_old_changelog_format_is_refused():
    with pytest.raises(RestoreError, match="only version 3"):
        Opened().buffer.restore([LoggedWrite(b"a", b"x", 1, [("v", b"\x01")])])


BYTES = st.one_of(st.none(), st.binary(max_size=5))


@given(
    st.builds(
        BufferedUpdate,
        prior=BYTES,
        old=BYTES,
        new=BYTES,
        timestamp=st.integers(0, 2**60),
        offset=st.integers(-1, 2**60),
        topic=st.one_of(st.none(), st.text(min_size=1, max_size=5)),
        partition=st.integers(0, 100),
        headers=st.one_of(
            st.none(), st.lists(st.tuples(st.text(max_size=3), BYTES), min_size=1, max_size=3)
        ),
    ),
    st.integers(0, 2**60),
)
def test_every_update_survives_its_bytes(update: BufferedUpdate, time: int):
    assert decode_update(encode_update(update, time)) == update


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.integers(0, 9)),
            st.sampled_from(["remove", "commit", "reopen"]),
        ),
        max_size=30,
    )
)
def test_the_buffer_equals_a_dict_sorted_by_time_and_key(steps: list[Any]):
    opened = Opened()
    waiting: dict[str, tuple[int, str]] = {}

    for number, step in enumerate(steps):
        if step == "remove":
            if waiting:
                key = min(waiting, key=lambda k: (waiting[k][0], k))
                del waiting[key]
                opened.buffer.remove_first()
        elif step == "commit":
            opened.commit()
        elif step == "reopen":
            opened.commit()
            opened.buffer._version = -1
        else:
            key, time = step
            waiting[key] = (waiting.get(key, (time, ""))[0], str(number))
            opened.put(key, str(number), time)
        assert opened.buffer.num_records == len(waiting)
        times = [time for time, _ in waiting.values()]
        assert opened.buffer.min_timestamp == min(times, default=2**63)

    in_order = sorted(waiting.items(), key=lambda row: (row[1][0], row[0]))
    assert opened.drain() == [(key, new) for key, (_, new) in in_order]
    assert opened.buffer.size_bytes == 0
