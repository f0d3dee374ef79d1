"""Kafka Streams' own class reads our offset metadata, and we read what it writes."""

from __future__ import annotations

import pytest

from logstate.changelog.cut import Cut, decode_cut, encode_cut, encode_task_cut
from tests.broker.jvm_program import answer

CUT = Cut(
    42,
    {f"app-store-{i}-changelog": 1_000 + i for i in range(20)},
    {"task:stream_time": 77, "emitted:final": 60},
    {"clicks": "Uj5fn9F1TrGcM4Zcxr3xhg"},
)


def read_by_jvm(lines: list[str], *names: str) -> list[tuple[int, str, str]]:
    """(partition time, times by name as text, what the JVM would commit) of each line."""
    printed = answer("CutReader.java", *names, lines=lines)
    found = []
    for line in printed:
        time, rest = line.split(" ", 1)
        times, _, encoded = rest.rpartition(" ")
        found.append((int(time), times, encoded))
    assert len(found) == len(lines), printed
    return found


def test_the_jvm_reads_our_metadata_and_we_read_the_jvms() -> None:
    times = {"final": 60, "größe": -1}
    pointer = encode_task_cut(
        {"clicks": (42, 5)},
        positions={f"app-a-long-name-of-a-store-{i}-changelog": i for i in range(200)},
        clocks={},
        topic_ids={},
        processor_times=times,
    )
    assert pointer.record is not None
    ours = [
        encode_cut(CUT, partition_time_ms=5, processor_times=times),
        encode_cut(CUT, partition_time_ms=5),
        encode_cut(CUT),
        pointer.metadata["clicks"],
    ]
    found = read_by_jvm(ours, *times)
    assert [(time, text) for time, text, _ in found] == [
        (5, "{final=60, größe=-1}"),
        (5, "{}"),
        (-1, "{}"),
        (5, "{final=60, größe=-1}"),
    ]
    for (time, text, encoded), processor_times in zip(found, [times, {}, {}, times], strict=True):
        decoded = decode_cut(encoded, committed_offset=42)
        assert decoded.partition_time_ms == time, text
        assert decoded.processor_times == processor_times
        assert decoded.cut is None


@pytest.mark.parametrize("stores", [1, 200])
def test_the_jvm_reads_the_partition_time_however_many_stores_there_are(stores: int) -> None:
    cut = encode_task_cut(
        {"clicks": (7, 1_700_000_000_000), "views": (9, 3)},
        positions={f"app-store-{i}-changelog": i for i in range(stores)},
        clocks={f"observed:store-{i}": i for i in range(stores)},
        topic_ids={"clicks": "a", "views": "b"},
        processor_times={f"store-{i}": i for i in range(stores)},
    )
    found = read_by_jvm(list(cut.metadata.values()), "store-0")
    assert [time for time, _, _ in found] == [1_700_000_000_000, 3]
