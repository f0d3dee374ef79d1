"""The pace of Python's collector while workers run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from logstate.worker.gc_tuner import GcTuner


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_as_before_outside() -> None:
    with GcTuner(young_max=5_000).rare():
        assert gc.get_threshold() == (5_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_one_to_leave_puts_the_setting_back() -> None:
    pace = GcTuner(young_max=5_000)
    with pace.rare():
        with pace.rare():
            pass
        assert gc.get_threshold() == (5_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_higher_setting_of_the_process_is_left_alone() -> None:
    gc.set_threshold(9_000, 10, 10)
    with GcTuner(young_max=5_000).rare():
        assert gc.get_threshold() == (9_000, 10, 10)
    assert gc.get_threshold() == (9_000, 10, 10)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.set_threshold(0, 10, 10)
    with GcTuner(young_max=5_000).rare():
        assert gc.get_threshold() == (0, 10, 10)


def test_a_setting_made_meanwhile_stays() -> None:
    with GcTuner(young_max=5_000).rare():
        gc.set_threshold(1_000, 10, 10)
    assert gc.get_threshold() == (1_000, 10, 10)
