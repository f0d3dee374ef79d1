"""What committed state needs of a changelog, and what of it is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from logstate import serdes
from logstate.changelog.cut import Cut
from logstate.changelog.stores.kinds import KINDS
from logstate.contracts.stores import StoreSpec
from logstate.restore.missing_records import (
    LogRange,
    Needed,
    lost_beginning,
    lost_end,
    needed_records,
)

TOPIC = "app-s-changelog"
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SEGMENTED = [name for name, kind in KINDS.items() if kind.is_segmented]
KEPT = [name for name, kind in KINDS.items() if not kind.is_segmented]


def spec_of(kind: Any, **options: Any) -> StoreSpec:
    return StoreSpec("s", kind, serdes.string, serdes.string, **options)


def needed(
    spec: StoreSpec,
    cut: Cut | None,
    *,
    start: int = 0,
    committed: int | None = None,
    retention_ms: int | None = None,
) -> Needed:
    return needed_records(
        spec,
        TOPIC,
        cut,
        LogRange(start, 100),
        committed=committed,
        retention_ms=retention_ms,
        now_ms=NOW_MS,
    )


# --- what is needed -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KEPT)
def test_a_store_whose_rows_never_expire_needs_its_changelog_from_offset_0_on(kind: str) -> None:
    assert needed(spec_of(kind), None, start=7) == Needed(0, None)
    assert needed(spec_of(kind), Cut(5, {TOPIC: 90}), start=7) == Needed(0, 90)
    accepted = Cut(5, {TOPIC: 90}, begins={TOPIC: 7})
    assert needed(spec_of(kind), accepted, start=7) == Needed(7, 90)


@pytest.mark.parametrize("kind", SEGMENTED)
def test_a_windowed_store_needs_what_its_cut_says(kind: str) -> None:
    spec = spec_of(kind, retention_ms=DAY_MS)
    cut = Cut(5, {TOPIC: 90}, begins={TOPIC: 30})
    assert needed(spec, cut, start=40) == Needed(30, 90)
    assert needed(spec, Cut(5, {TOPIC: 90}), start=40) == Needed(None, 90), "of an earlier version"
    assert needed(spec, None, start=40) == Needed(None, None), "of Kafka Streams"


@pytest.mark.parametrize(
    ("behind_ms", "first"), [(DAY_MS, 40), (DAY_MS + 1, 30), (0, 40), (-DAY_MS, 40)]
)
def test_brokers_that_delete_by_age_delete_no_live_window_while_event_time_is_near(
    behind_ms: int, first: int
) -> None:
    """The records are older than two days; rows live for one day of event time."""
    spec = spec_of("window", retention_ms=DAY_MS)
    clocks = {"store:s": NOW_MS - behind_ms}
    cut = Cut(5, {TOPIC: 90}, clocks, begins={TOPIC: 30})
    assert needed(spec, cut, start=40, retention_ms=2 * DAY_MS).first == first


def test_without_a_clock_retention_by_age_proves_nothing() -> None:
    spec = spec_of("window", retention_ms=DAY_MS)
    cut = Cut(5, {TOPIC: 90}, begins={TOPIC: 30})
    assert needed(spec, cut, start=40, retention_ms=2 * DAY_MS).first == 30


def test_age_never_explains_what_is_missing_of_rows_that_do_not_expire() -> None:
    cut = Cut(5, {TOPIC: 90}, {"store:s": NOW_MS})
    assert needed(spec_of("key_value"), cut, start=40, retention_ms=2 * DAY_MS).first == 0


def test_a_source_topic_is_needed_from_where_the_rows_began_to_the_committed_offset() -> None:
    spec = spec_of("timestamped_key_value", source_topic=TOPIC)
    cut = Cut(80, begins={TOPIC: 12})
    assert needed(spec, cut, start=12, committed=80) == Needed(12, 80)
    assert needed(spec, Cut(80), start=12, committed=80) == Needed(None, 80)


# --- what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "wanted", "rows"),
    [
        (LogRange(0, 20), Needed(0, 19), None),
        (LogRange(7, 20), Needed(7, 19), None),
        (LogRange(7, 20), Needed(9, 19), None),
        (LogRange(20, 20), Needed(20, 20), None),
        (LogRange(20, 20), Needed(12, 12), None),
        (LogRange(0, 0), Needed(0, 0), None),
        (LogRange(7, 20), Needed(None, 19), None),
        (LogRange(7, 20), Needed(0, 19), LogRange(0, 7)),
        (LogRange(20, 20), Needed(0, 19), LogRange(0, 19)),
        (LogRange(12, 20), Needed(12, 19), LogRange(0, 7)),
        (LogRange(12, 20), Needed(12, 19), LogRange(12, 15)),
        (LogRange(7, 20), Needed(None, 19), LogRange(0, 3)),
    ],
)
def test_nothing_is_missing_at_the_beginning(
    log: LogRange, wanted: Needed, rows: LogRange | None
) -> None:
    assert lost_beginning(log, wanted, rows) is None


@pytest.mark.parametrize(
    ("log", "wanted", "rows", "found"),
    [
        (LogRange(1, 20), Needed(0, 19), None, "starts at offset 1, .* from offset 0 on"),
        (LogRange(20, 20), Needed(0, 19), None, "starts at offset 20"),
        (LogRange(20, 20), Needed(0, None), None, "starts at offset 20"),
        (LogRange(8, 20), Needed(0, 19), LogRange(0, 7), "starts at offset 8, .* from offset 7"),
        (LogRange(20, 20), Needed(0, 19), LogRange(0, 18), "from offset 18 on"),
        (LogRange(13, 20), Needed(12, 19), LogRange(0, 7), "from offset 12 on"),
        (LogRange(0, 20), Needed(0, 19), LogRange(3, 19), "built from .* offset 3 on"),
    ],
)
def test_the_beginning_is_missing(
    log: LogRange, wanted: Needed, rows: LogRange | None, found: str
) -> None:
    lost = lost_beginning(log, wanted, rows)
    assert lost is not None
    assert re.search(found, lost)


def test_a_log_that_reaches_the_committed_position_has_its_end() -> None:
    assert lost_end(LogRange(0, 200), Needed(0, 200)) is None
    assert lost_end(LogRange(0, 230), Needed(0, 200)) is None
    assert lost_end(LogRange(0, 1), Needed(0, None)) is None
    lost = lost_end(LogRange(0, 199), Needed(0, 200))
    assert lost == "it ends at 199, but the committed offsets belong to position 200"
