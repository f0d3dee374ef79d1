"""The page on memory says what the bounds in the code are, and their sum."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstate.changelog.backend.rocks import shared_memory
from logstate.contracts.worker_config import (
    BUFFERED_BYTES,
    CACHE_BYTES,
    CHECKPOINT_BYTES,
    WorkerConfig,
)
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.fetching import FETCH_MAX_BYTES, QUEUED_MAX_KBYTES

PAGE = Path(__file__).resolve().parents[4] / "docs" / "sizing.md"
MIB = 1 << 20
BROKERS = 3
CONFIG = WorkerConfig("app", "tx")
#: an entry of two dicts, the headers of a key and a value
ROW_BYTES = 200


def producer_kbytes() -> int:
    config = KafkaCluster("localhost:9092")._producer_config()
    return int(config["queue.buffering.max.kbytes"])


#: line of the page -> the bound in the code
BOUNDS = {
    "rows that were read or written lately": CACHE_BYTES,
    "committed rows that wait for RocksDB: keys and values": CHECKPOINT_BYTES,
    "the same: what Python adds to 500,000 rows": CONFIG.waiting_rows_max * ROW_BYTES,
    "blocks, indexes and unflushed writes of RocksDB": shared_memory().cache_bytes,
    "fetched records that wait to be processed": BUFFERED_BYTES,
    "fetched records that the client holds: keys and values": QUEUED_MAX_KBYTES << 10,
    "one response of a broker": FETCH_MAX_BYTES,
    "records that are being sent": producer_kbytes() << 10,
    "rows that a restore has read and not written yet": CONFIG.restore_bytes,
}


def lines(heading: str) -> dict[str, int]:
    """First column -> MiB of the second, of the table below a heading."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| ([\d,]+) MiB \|", text, re.MULTILINE)
    return {name: int(size.replace(",", "")) for name, size in found}


def test_the_page_has_the_bounds_of_the_code() -> None:
    page = lines("Bounds")
    assert page.keys() - BOUNDS.keys() == {
        "interpreter, libraries",
        "a task: its operators and an open database",
    }
    for name, bound in BOUNDS.items():
        assert page[name] == pytest.approx(bound / MIB, abs=1), name


@pytest.mark.parametrize("tasks", [1, 4, 50])
def test_the_size_on_the_page_is_the_sum_of_the_bounds(tasks: int) -> None:
    bounds = lines("Bounds")
    bounds.pop("rows that a restore has read and not written yet")
    per_task = bounds.pop("a task: its operators and an open database")
    per_broker = bounds.pop("one response of a broker")
    computed = sum(bounds.values()) + tasks * per_task + BROKERS * per_broker
    assert lines("Sizes")[str(tasks)] == pytest.approx(computed, rel=0.03)
