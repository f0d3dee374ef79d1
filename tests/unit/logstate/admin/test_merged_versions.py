"""Versions of several old partitions on their way into one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from logstate import serdes
from logstate.admin.row_copies import NO_TIMESTAMP, RowCopies
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.kafka.log_reader import LogBounds
from logstate.topics.store_moves import StoreMove
from tests.unit.changelog.store_bench import StoreBench
from tests.unit.logstate.admin.written import Written

HOUR, DAY = 3_600_000, 86_400_000
RATES = StoreSpec("rates", "versioned", serdes.string, serdes.int64, history_ms=HOUR)
ENTRY = {"kind": "versioned", "key": {"format": "string"}, "history_ms": HOUR}
MOVE = StoreMove(RATES, ENTRY, "old", "new", 2, 1, None, None)
KEYS = [[f"k{i}" for i in range(50) if partition_of(f"k{i}".encode(), 2) == n] for n in (0, 1)]


@dataclass(frozen=True)
class WrittenLogs:
    """Logs with these records."""

    of_partitions: list[list[Written]]

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return {tp: LogBounds(0, 9, 9) for tp in partitions}

    def read(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        queue_kib: int | None = None,
    ) -> Iterator[list[Written]]:
        yield from ([one] for one in self.of_partitions[partition.partition])

    def latest_values(self, partition: TopicPartition) -> dict[bytes, bytes]:
        raise AssertionError(f"nobody asks for {partition}")


def merged(logs: list[list[Written]], move: StoreMove = MOVE) -> list[ProducedFields]:
    """What is written of these old partitions, in order."""
    copies = RowCopies(move, {0: {}, 1: {}}, {})
    return [one for batch in copies.of_all_partitions(WrittenLogs(logs)) for one in batch]


def old_log(*puts: tuple[str, int | None, int]) -> tuple[StoreBench, list[Written]]:
    bench = StoreBench(RATES, logs_every_write=True)
    for key, value, time_ms in puts:
        bench.store.put(key, value, time_ms)
    bench.commit()
    return bench, [Written(at, *one) for at, one in enumerate(written(bench))]


def written(bench: StoreBench) -> list[tuple[bytes, bytes | None, int]]:
    return [(one.key, one.value, one.timestamp) for one in bench.log]


def restored(copies: list[ProducedFields]) -> Any:
    bench = StoreBench(RATES)
    log = [(key, value, max(time_ms, 0), None) for _, _, key, value, time_ms, _ in copies]
    bench.state.restore("rates", log, len(log))
    return bench.store


def test_a_key_that_was_quiet_for_longer_than_the_history_keeps_its_row() -> None:
    logs = []
    for quiet, loud in (keys[:2] for keys in KEYS):
        bench, log = old_log((quiet, 7, 10 * DAY), (loud, 8, 20 * DAY))
        assert bench.store.get(quiet).value == 7
        logs.append(log)

    store = restored(merged(logs))

    for quiet, loud in (keys[:2] for keys in KEYS):
        assert (store.get(quiet).value, store.get(loud).value) == (7, 8)


def test_what_the_store_had_refused_does_not_come_back() -> None:
    (a, b), (c, _) = KEYS[0][:2], KEYS[1][:2]
    far, log = old_log((a, 1, 10 * DAY), (b, 2, 10 * DAY), (b, 3, DAY))
    _, other = old_log((c, 4, DAY), (c, 5, 10 * DAY))
    assert [one.time_ms for one in log] == [10 * DAY, 10 * DAY, DAY]

    copies = merged([log, other])

    assert [time_ms for *_, time_ms, _ in copies] == [DAY, 10 * DAY, 10 * DAY, 10 * DAY]
    assert restored(copies).get(b) == far.store.get(b)


class AsGiven(Written):
    """With its time as it is in the log."""

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms


@pytest.mark.parametrize("time_ms", [0, -1])
@pytest.mark.parametrize("kind", ["key_value", "versioned"])
def test_a_row_of_time_zero_is_written_without_a_time(kind: str, time_ms: int) -> None:
    """A client would write the current time for 0, and the row would be the newest of its key.

    Kafka Streams writes the 0.
    """
    spec = StoreSpec("rates", kind, serdes.string, serdes.int64, history_ms=HOUR)  # type: ignore[arg-type]
    move = replace(MOVE, spec=spec, entry={**ENTRY, "kind": kind})
    key = KEYS[0][0].encode()
    log = [AsGiven(0, key, bytes(8), time_ms), AsGiven(1, key, bytes(8), 1)]

    (zero, one) = merged([log, []], move)

    assert (zero[:3], zero[4]) == (("new", 0, key), NO_TIMESTAMP)
    assert one[4] == 1
