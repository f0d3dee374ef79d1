"""Windows that an application has deleted: a read at a cut of before notices, or is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from logstate.changelog.spark import LogstateDataSource, latest_cut
from tests.spark.changelog_writer import ApplicationLog, int64, window_key

Rows = Callable[..., list[tuple[Any, ...]]]

#: of an owner that deletes: the cut shows windows from 6,000 on
RETENTION_MS, CLOCK_MS = 5_000, 10_000
STARTS_MS = (4_000, 6_000, 8_000, 10_000)
SHOWN = [("a", start, start + 1_000, start) for start in (10_000, 6_000, 8_000)]


def hourly(log: ApplicationLog) -> str:
    """The changelog of four windows, of which the newest commit shows three."""
    topic = log.add_store(
        "hourly",
        "window",
        window_size_ms=1_000,
        retention_ms=RETENTION_MS,
        segment_interval_ms=2_000,
        config={"cleanup.policy": "compact,delete"},
    )
    written = [(window_key("a", start), int64(start)) for start in STARTS_MS]
    log.commit(10, {topic: log.write(topic, written)}, clocks={"store:hourly": CLOCK_MS})
    log.commit(10, {topic: 0}, partition=1)
    return topic


def go_on(log: ApplicationLog, topic: str, clock_ms: int) -> None:
    """One more window, and a commit with a later clock."""
    position = log.write(topic, [(window_key("b", clock_ms), int64(1))])
    log.commit(11, {topic: position}, clocks={"store:hourly": clock_ms})


def aged(cut: str, by_ms: int = 60_000) -> str:
    """The same cut, as if it had been taken before."""
    told = json.loads(cut)
    return json.dumps({**told, "taken_at_ms": told["taken_at_ms"] - by_ms})


def test_a_cut_whose_windows_were_deleted_since_is_refused(log: ApplicationLog, rows: Rows) -> None:
    topic = hourly(log)
    cut = aged(latest_cut(log.bootstrap, log.application))
    assert rows("hourly", cut=cut, times="ms") == SHOWN
    go_on(log, topic, 20_000)
    log.delete_before(topic, 2)

    with pytest.raises(PySparkException, match="windows that the cut shows have expired since"):
        rows("hourly", cut=cut, times="ms")
    assert rows("hourly", times="ms") == [("b", 20_000, 21_000, 1)]


def test_a_cut_that_shows_none_of_the_deleted_windows_is_read(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = hourly(log)
    cut = aged(latest_cut(log.bootstrap, log.application))
    go_on(log, topic, 10_500)
    log.delete_before(topic, 1)

    assert rows("hourly", cut=cut, times="ms") == SHOWN


def test_what_is_deleted_while_a_table_is_read_is_not_taken_for_compaction(
    log: ApplicationLog,
) -> None:
    """Owners delete a while after windows have expired: a new cut shows none of these."""
    topic = log.add_store(
        "joined",
        "window",
        window_size_ms=1_000,
        retention_ms=RETENTION_MS,
        retain_duplicates=True,
        config={"cleanup.policy": "compact,delete"},
    )
    written = [(window_key("a", start, n), int64(n)) for n, start in enumerate(STARTS_MS)]
    end = log.write(topic, [(window_key("z", n, n), int64(n)) for n in range(5)] + written)
    log.commit(10, {topic: end}, clocks={"store:joined": CLOCK_MS})
    log.commit(10, {topic: 0}, partition=1)
    options = {"bootstrap": log.bootstrap, "application": log.application, "store": "joined"}
    source = LogstateDataSource({**options, "times": "ms"})
    reader = source.reader(source.schema())
    planned = reader.partitions()
    log.write(topic, [(window_key("b", 20_000), int64(1))])
    log.delete_before(topic, 5)

    batches = [batch for one in planned for batch in reader.read(one)]

    found = [row["window_start"] for batch in batches for row in batch.to_pylist()]
    assert found == [6_000, 8_000, 10_000]
