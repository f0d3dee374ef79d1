"""The cut travels in a committed offset and belongs to that offset only."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.cut import (
    METADATA_BYTES_MAX,
    Cut,
    OffsetMetadata,
    Writer,
    cut_key,
    decode_cut,
    decode_cut_record,
    encode_cut,
    encode_cut_record,
    encode_task_cut,
)
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TaskId
from tests.damaged import ODD, damaged_bytes

CUT = Cut(
    offset=42,
    positions={"app-spend-changelog": 1_000, "app-visits-changelog": 7},
    clocks={"stream": 1_700_000_000_000},
    topic_ids={"clicks": "Uj5fn9F1TrGcM4Zcxr3xhg"},
)
WRITER = Writer("app-transactions-0", "member-7")

names = st.text(min_size=1, max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)
cuts = st.builds(
    Cut,
    st.integers(0, 2**63 - 1),
    st.dictionaries(names, st.integers(0, 2**63 - 1)),
    st.dictionaries(names, longs),
    st.dictionaries(names, names),
    st.just(False),
    st.none() | st.builds(Writer, names, names),
    st.dictionaries(names, st.integers(0, 2**63 - 1)),
    st.dictionaries(names, st.integers(0, 2**63 - 1)),
)


def streams_block(partition_time_ms: int, *times: tuple[str, int]) -> bytes:
    """What Kafka Streams writes: no count at all when its map is empty."""
    block = b"\x02" + partition_time_ms.to_bytes(8, "big", signed=True)
    if times:
        block += len(times).to_bytes(4, "big")
    for name, time_ms in times:
        text = name.encode()
        block += len(text).to_bytes(4, "big") + text + time_ms.to_bytes(8, "big", signed=True)
    return block


@given(cuts, longs, st.dictionaries(names, longs))
def test_a_cut_comes_back_as_it_was(
    cut: Cut, partition_time_ms: int, processor_times: dict[str, int]
) -> None:
    text = encode_cut(cut, partition_time_ms=partition_time_ms, processor_times=processor_times)

    decoded = decode_cut(text, committed_offset=cut.offset)

    assert decoded == OffsetMetadata(partition_time_ms, processor_times, cut)


def test_a_cut_keeps_the_order_of_its_schedules() -> None:
    clocks = {"schedule:t9": 5, "schedule:t11": 5, "schedule:a": 9}
    text = encode_cut(Cut(7, clocks=clocks))
    record = encode_cut_record(Cut(7, clocks=clocks), {"in": 7})

    decoded = decode_cut(text, committed_offset=7).cut
    in_topic = decode_cut_record(record, topic="in", committed_offset=7)
    assert decoded is not None
    assert in_topic is not None
    assert list(decoded.clocks) == list(in_topic.clocks) == list(clocks)


def test_the_bytes_are_those_of_the_format() -> None:
    text = encode_cut(CUT, partition_time_ms=5, processor_times={"agg": 9})

    assert base64.b64decode(text).hex() == (
        "02" "0000000000000005" "00000001" "00000003" "616767" "0000000000000009"
        "4c" "01" "84"
        "a163" "81" "a673747265616d" "cf0000018bcfe56800"
        "a16f" "2a"
        "a170" "82" "b36170702d7370656e642d6368616e67656c6f67" "cd03e8"
        "b46170702d7669736974732d6368616e67656c6f67" "07"
        "a174" "81" "a6636c69636b73" "b6556a35666e394631547247634d345a63787233786867"
    )  # fmt: skip


def test_the_first_block_is_what_kafka_streams_reads() -> None:
    data = base64.b64decode(encode_cut(CUT, partition_time_ms=5, processor_times={"agg": 9}))

    assert data.startswith(streams_block(5, ("agg", 9)))


def test_without_processor_times_kafka_streams_still_reads_a_count_of_zero() -> None:
    data = base64.b64decode(encode_cut(CUT, partition_time_ms=5))

    assert struct.unpack_from(">bqi", data) == (2, 5, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Version 2 without a map, version 2 with one, version 1.
        ("AgAAAAAAAAAF", OffsetMetadata(5)),
        (base64.b64encode(streams_block(5)).decode(), OffsetMetadata(5)),
        (base64.b64encode(streams_block(5, ("a", 6))).decode(), OffsetMetadata(5, {"a": 6})),
        (base64.b64encode(b"\x01" + b"\xff" * 8).decode(), OffsetMetadata(-1)),
    ],
)
def test_an_offset_committed_by_kafka_streams_has_times_and_no_cut(
    text: str, expected: OffsetMetadata
) -> None:
    assert decode_cut(text, committed_offset=42) == expected


@pytest.mark.parametrize("text", ["", None, "moved by hand", "YQ==", "CQAAAAAAAAAF", "é"])
def test_metadata_of_somebody_else_says_nothing(text: str | None) -> None:
    assert decode_cut(text, committed_offset=42) == OffsetMetadata()


def test_a_cut_of_another_offset_is_ignored_and_the_partition_time_kept() -> None:
    text = encode_cut(CUT, partition_time_ms=5)

    assert decode_cut(text, committed_offset=41) == OffsetMetadata(5)


def test_a_newer_version_is_refused() -> None:
    data = bytearray(base64.b64decode(encode_cut(CUT)))
    data[14] = 2

    with pytest.raises(RestoreError, match="version 2 was found"):
        decode_cut(base64.b64encode(data).decode(), committed_offset=42)


def test_a_truncated_cut_is_refused() -> None:
    data = base64.b64decode(encode_cut(CUT))[:-3]

    with pytest.raises(RestoreError, match="damaged"):
        decode_cut(base64.b64encode(data).decode(), committed_offset=42)


def blocks(fields: object) -> bytes:
    """A block with these fields."""
    return b"L\x01" + msgspec.msgpack.encode(fields)


FIELDS: dict[str, Any] = {"o": 42, "i": {"in": 42}, "t": {"in": "id"}, "c": {"stream": 1}}
FIELDS |= {"p": {"log": 7}, "w": ["id", "member"], "x": False}
#: msgpack has integers of 64 bits
FITTING = [one for one in ODD if not isinstance(one, int) or -(2**63) <= one < 2**64]
ODD_FIELDS = st.tuples(st.sampled_from([*FIELDS]), st.sampled_from(FITTING))


@given(damaged_bytes(base64.b64decode(encode_cut(CUT, processor_times={"s": 1}))))
def test_damaged_metadata_is_refused_or_is_a_cut(data: bytes) -> None:
    with suppress(RestoreError):
        found = decode_cut(base64.b64encode(data).decode(), committed_offset=42)
        assert found.cut is None or all(at >= 0 for at in found.cut.positions.values())


@given(st.lists(ODD_FIELDS, max_size=2), st.sets(st.sampled_from([*FIELDS]), max_size=2))
def test_a_block_with_fields_of_other_types_is_refused(
    wrong: list[tuple[str, object]], gone: set[str]
) -> None:
    told = {name: one for name, one in {**FIELDS, **dict(wrong)}.items() if name not in gone}
    with suppress(RestoreError):
        metadata = base64.b64encode(streams_block(1) + bytes(4) + blocks(told)).decode()
        found = decode_cut(metadata, committed_offset=42)
        assert found.cut is None or found.cut.offset == 42
    with suppress(RestoreError):
        decode_cut_record(blocks(told), topic="in", committed_offset=42)


@pytest.mark.parametrize(
    "value",
    [b"", b"L", b"L\x01", b"L\x01\xc0", blocks([]), blocks({}), b"L\x01" + b"\x91" * 10_000],
)
def test_a_damaged_record_of_the_cuts_topic_is_refused(value: bytes) -> None:
    with pytest.raises(RestoreError, match="a cut is damaged"):
        decode_cut_record(value, topic="in", committed_offset=1)


def test_lengths_below_zero_do_not_make_decoding_endless() -> None:
    data = (
        b"\x02" + bytes(8) + (2**31 - 1).to_bytes(4, "big") + (-12).to_bytes(4, "big", signed=True)
    )
    told = decode_cut(base64.b64encode(data + bytes(64)).decode(), committed_offset=1)
    assert told == OffsetMetadata()


def test_unknown_fields_of_this_version_are_skipped() -> None:
    data = base64.b64decode(encode_cut(CUT))
    extended = data[:15] + bytes((data[15] + 1,)) + b"\xa1z\xc3" + data[16:]

    assert decode_cut(base64.b64encode(extended).decode(), committed_offset=42).cut == CUT


def test_a_task_commits_its_cut_with_every_input() -> None:
    task_cut = encode_task_cut(
        {"clicks": (42, 5), "users": (3, 6)},
        positions=CUT.positions,
        clocks=CUT.clocks,
        topic_ids=CUT.topic_ids,
    )

    assert task_cut.record is None
    assert decode_cut(task_cut.metadata["clicks"], committed_offset=42) == OffsetMetadata(
        5, {}, CUT
    )
    assert decode_cut(task_cut.metadata["users"], committed_offset=3).cut == CUT._replace(offset=3)


def test_a_cut_over_the_limit_moves_to_the_cuts_topic() -> None:
    clocks = {f"clock-{n}": n for n in range(1_000)}

    task_cut = encode_task_cut(
        {"clicks": (42, 5), "users": (3, 6)},
        positions={},
        clocks=clocks,
        topic_ids={},
        writer=WRITER,
    )

    assert max(map(len, task_cut.metadata.values())) <= METADATA_BYTES_MAX
    pointer = decode_cut(task_cut.metadata["users"], committed_offset=3)
    assert pointer == OffsetMetadata(6, {}, Cut(3, is_in_cuts_topic=True, writer=WRITER))
    assert task_cut.record is not None
    found = decode_cut_record(task_cut.record, topic="users", committed_offset=3)
    assert found == Cut(3, {}, clocks, {})


def test_a_pointer_to_the_cuts_topic_says_what_is_open() -> None:
    is_open = {"open:counts": 1, "open:sums": 0}
    clocks = {f"clock-{n}": n for n in range(1_000)} | is_open

    task_cut = encode_task_cut({"clicks": (42, 5)}, positions={}, clocks=clocks, topic_ids={})

    pointer = decode_cut(task_cut.metadata["clicks"], committed_offset=42).cut
    assert pointer == Cut(42, clocks=is_open, is_in_cuts_topic=True)


def test_a_record_in_the_cuts_topic_counts_for_its_offsets_only() -> None:
    value = encode_cut_record(CUT, {"clicks": 42})

    assert decode_cut_record(value, topic="clicks", committed_offset=42) == CUT
    assert decode_cut_record(value, topic="clicks", committed_offset=43) is None
    assert decode_cut_record(value, topic="users", committed_offset=42) is None


def test_the_key_of_a_task_in_the_cuts_topic() -> None:
    assert cut_key(TaskId(0, 3)) == b"cut:0_3"
