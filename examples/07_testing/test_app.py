"""What a test of a topology can check."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from logstate import TopologyTestDriver

app = import_module("examples.07_testing.app")

MINUTE = 60_000
SPEEDS = [
    ("red", 80.0, 1_000),
    ("blue", 95.0, 2_000),
    ("red", 120.0, 30_000),
    ("red", 60.0, MINUTE + 1_000),
    ("blue", 99.0, 59_000),  # late, but within the grace
    ("red", 70.0, 2 * MINUTE + 15_000),
]


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(app.topology()) as driver:
        yield driver


def test_a_minute_is_reported_once_with_the_time_of_its_last_change(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe_all("speeds", SPEEDS)
    assert driver.read_with_timestamps("top-speeds", value=float) == [
        ("blue", 99.0, 59_000),
        ("red", 120.0, 30_000),
        ("red", 60.0, 61_000),
    ]


def test_what_comes_after_the_grace_is_dropped_and_counted(driver: TopologyTestDriver) -> None:
    driver.pipe("speeds", "red", 60.0, timestamp=MINUTE + 10_000)
    driver.pipe("speeds", "red", 200.0, timestamp=59_999)
    assert driver.dropped_total == 1


def test_an_implausible_speed_changes_nothing(driver: TopologyTestDriver) -> None:
    driver.pipe("speeds", "red", 1e9)
    assert list(driver.store("top-speeds").all()) == []


def test_the_running_minute_is_in_the_store(driver: TopologyTestDriver) -> None:
    driver.pipe_all("speeds", SPEEDS[:3])
    assert driver.store("top-speeds").fetch("red", 0).value == 120.0


@pytest.mark.parametrize("loses_disk", [False, True])
@pytest.mark.parametrize("crash_at", range(len(SPEEDS)))
def test_a_crash_changes_nothing(tmp_path: Path, crash_at: int, *, loses_disk: bool) -> None:
    with TopologyTestDriver(app.topology(), state_dir=tmp_path) as driver:
        driver.pipe_all("speeds", SPEEDS[:crash_at])
        driver.crash(loses_disk=loses_disk)
        driver.pipe_all("speeds", SPEEDS[crash_at:])
        assert len(driver.read("top-speeds", value=float)) == 3


@pytest.mark.parametrize("commit_every", [1, 2, 5])
def test_results_do_not_depend_on_when_it_commits(commit_every: int) -> None:
    with TopologyTestDriver(app.topology(), commit_every=commit_every) as driver:
        driver.pipe_all("speeds", SPEEDS)
        assert driver.read("top-speeds", value=float) == [
            ("blue", 99.0),
            ("red", 120.0),
            ("red", 60.0),
        ]


def test_the_topology_is_the_one_that_was_reviewed() -> None:
    """Stores and topics keep their names from one release to the next."""
    assert (
        app.topology().describe()
        == """Topologies:
   Sub-topology: 0
    Source: speeds (topics: [speeds])
      --> plausible
    Processor: plausible (stores: [])
      --> top-speed
      <-- speeds
    Processor: top-speed (stores: [top-speeds])
      --> finished
      <-- plausible
    Processor: finished (stores: [finished-store])
      --> car
      <-- top-speed
    Processor: car (stores: [])
      --> KSTREAM-KEY-SELECT-0000000004
      <-- finished
    Processor: KSTREAM-KEY-SELECT-0000000004 (stores: [])
      --> out
      <-- car
    Sink: out (topic: top-speeds)
      <-- KSTREAM-KEY-SELECT-0000000004

"""
    )
