"""What Kafka Streams logged, read as a table, is what its stores held: the recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logstate.changelog.reading.latest_records import LatestRecords
from logstate.changelog.reading.table_scan import versions
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.contracts.records import TopicPartition
from tests.conformance.vectors import Case, Run, read_cases

VECTORS = Path(__file__).parent.parent / "conformance" / "vectors"
READABLE = ("key_value", "timestamped", "window", "session", "versioned")


class LoggedRecord(NamedTuple):
    """A recorded changelog record in the shape a consumer gives."""

    at: int
    key_bytes: bytes
    value_bytes: bytes | None
    time_ms: int

    def topic(self) -> str:
        return "changelog"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms

    def headers(self) -> None:
        return None


def logged(raw: Sequence[Sequence[Any]]) -> list[Any]:
    return [
        LoggedRecord(at, bytes.fromhex(key), None if value is None else bytes.fromhex(value), time)
        for at, (_, key, value, time, *_) in enumerate(raw)
    ]


def entry_of(kind: str, rows: Sequence[Sequence[Any]], history_ms: int | None) -> dict[str, Any]:
    """A manifest entry as the application would have written it."""
    key: dict[str, Any] = {"format": "string"}
    if rows and isinstance(rows[0][0], dict):
        size_ms = rows[0][0]["end"] - rows[0][0]["start"]
        key = {"format": "windowed", "inner": key, "window_size_ms": size_ms}
    value_at = 3 if "window" in kind or "session" in kind else 1
    # A store that shows no rows does not tell its type; then nothing is decoded.
    is_text = any(isinstance(row[value_at], str) for row in rows)
    formats = {True: "string", False: "int64"}
    return {
        "kind": kind.removesuffix("_headers"),  # which is no kind of store here
        "key": key,
        "value": {"format": formats[is_text] if rows else "bytes"},
        "window_size_ms": rows[0][2] - rows[0][1] if rows and "window" in kind else None,
        "retention_ms": history_ms,
    }


def history_of(case: Case, store: str) -> int | None:
    for step in case.steps:
        if step.get("store", step["name"]) == store:
            history_ms = step.get("versioned_history_ms", step.get("history_ms"))
            return history_ms if history_ms is None else int(history_ms)
    return None


def read_table(entry: dict[str, Any], records: list[Any]) -> list[tuple[Any, ...]]:
    table = StoreTable(entry, are_times_integers=True)
    latest = LatestRecords(table, None, 0, log=TopicPartition("changelog", 0))
    latest.add(records)
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    blocks = versions(latest.blocks()) if table.is_versioned else latest.blocks()
    return [
        tuple(row.values())
        for block in blocks
        for row in record_batch(columns, block.filter(block.values.is_valid())).to_pylist()
    ]


def expected_rows(kind: str, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    width = 2 if "key_value" in kind else 4
    return [
        (row[0]["key"], row[0]["start"], row[0]["end"], *row[1:width])
        if isinstance(row[0], dict)
        else tuple(row[:width])
        for row in rows
    ]


def is_forgotten_delete(
    row: tuple[Any, ...], found: Sequence[tuple[Any, ...]], raw: Sequence[Sequence[Any]]
) -> bool:
    """Kafka Streams forgets a delete that finds no older version; an older version that is then
    put late ends at the next value instead. The log knows better, and so does the table."""
    ends = [each[3] for each in found if each[:3] == row[:3]]
    deletes = [(bytes.fromhex(key).decode(), time) for _, key, value, time, *_ in raw if not value]
    return len(ends) == 1 and (row[0], ends[0]) in deletes and ends[0] < row[3]


#: of runs with a cache no stores are recorded
CASES = [case for case in read_cases(VECTORS) if all(run.stores is not None for run in case.runs)]


def readable_stores(case: Case, run: Run) -> list[tuple[str, str, list[Any], list[Any]]]:
    return [
        (name, found["type"], found["rows"], run.changelog[topic])
        for name, found in run.stores.items()
        if not found.get("unreadable") and found["type"].startswith(READABLE)
        if (topic := case.names["changelog_topics"].get(name)) in run.changelog
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recorded_changelog_reads_as_the_recorded_store(case: Case) -> None:
    for run in case.runs:
        for name, kind, rows, raw in readable_stores(case, run):
            entry = entry_of(kind, rows, history_of(case, name))
            found = read_table(entry, logged(raw))
            expected = expected_rows(kind, rows)

            missing = [row for row in expected if row not in found]
            if kind == "versioned":
                missing = [row for row in missing if not is_forgotten_delete(row, found, raw)]
            hidden = [row for row in found if row not in expected]

            where = f"{case.name}, seed {run.seed}, store {name}"
            assert not missing, where
            # A store stops showing what is older than its retention; its log keeps it longer.
            if "key_value" in kind:
                assert not hidden, where
            elif kind == "versioned":
                assert all(row[3] is not None for row in hidden), where
            elif hidden and expected:
                time_at = 2 if kind.startswith("session") else 1
                assert max(row[time_at] for row in hidden) < min(row[time_at] for row in expected)


def test_the_recordings_hold_every_kind_of_store() -> None:
    kinds = {
        kind for case in CASES for run in case.runs for _, kind, _, _ in readable_stores(case, run)
    }

    assert kinds >= {
        "key_value",
        "timestamped_key_value",
        "window",
        "timestamped_window",
        "session",
        "versioned",
    }
