"""The points of the curves, and their tables."""

from __future__ import annotations

from pathlib import Path

from tests.performance.curves import header, points
from tests.performance.events import padded
from tests.performance.inputs import events_topic
from tests.performance.settings import Settings
from tests.performance.workload import WORKLOADS

BASE = Settings(WORKLOADS["W2"], "nowhere:9092", Path("work"), records=1_000)


def test_each_point_changes_one_setting() -> None:
    found = [p.settings for p in points(BASE, {"keys": [10, 20], "cache_mib": [8]})]
    assert [(s.keys, s.cache_mib) for s in found] == [(10, None), (20, None), (100_000, 8)]


def test_windows_take_as_many_records_as_they_span() -> None:
    (point,) = points(BASE, {"windows": [3]})
    assert point.settings.workload.code == "W4"
    assert point.settings.records == 30_000


def test_inputs_of_different_shapes_are_different_topics() -> None:
    axes = {"keys": [10], "partitions": [1, 16], "record_bytes": [1_000]}
    topics = {events_topic(point.settings) for point in points(BASE, axes)}
    assert len(topics) == 4


def test_an_event_is_filled_up_and_never_cut() -> None:
    assert len(padded(b'{"a":1}', 500)) == 500
    assert padded(b'{"a":1}', 5) == b'{"a":1}'


def test_a_table_has_as_many_columns_in_both_of_its_first_lines() -> None:
    first, second = header("keys").splitlines()
    assert first.count("|") == second.count("|")
