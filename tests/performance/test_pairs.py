"""Turns are taken, and disturbed pairs repeated."""

from __future__ import annotations

from tests.performance.figures import Figures
from tests.performance.pairs import REPEATS_MAX, measure_pair
from tests.performance.test_ratios import figures


class Runs:
    """Stands in for the programs: remembers the order, loses CPU time in the given runs."""

    def __init__(self, *stolen_cpu_s: float) -> None:
        self.order: list[str] = []
        self._stolen = list(stolen_cpu_s)

    def __call__(self, program: str) -> Figures:
        self.order.append(program)
        return figures(program, stolen_cpu_s=self._stolen.pop(0) if self._stolen else 0.0)


def test_who_runs_first_alternates_from_pair_to_pair() -> None:
    runs = Runs()

    pairs = [measure_pair(number, runs, "quix") for number in range(3)]

    assert runs.order == ["logstate", "quix", "quix", "logstate", "logstate", "quix"]
    assert all((p.ours.peer, p.theirs.peer) == ("logstate", "quix") for p in pairs)


def test_a_pair_that_lost_too_much_cpu_time_is_run_again() -> None:
    runs, notes = Runs(0.0, 2.0), list[str]()

    pair = measure_pair(0, runs, "quix", stolen_cpu_max_s=1.0, note=notes.append)

    assert pair.stolen_cpu_s == 0.0
    assert len(runs.order) == 4
    assert "run again" in notes[0]


def test_a_pair_that_stays_disturbed_is_kept_and_said_to_be() -> None:
    runs, notes = Runs(*[5.0] * 20), list[str]()

    pair = measure_pair(0, runs, "quix", stolen_cpu_max_s=1.0, note=notes.append)

    assert pair.stolen_cpu_s == 5.0
    assert len(runs.order) == 2 * REPEATS_MAX
    assert "kept" in notes[-1]


def test_without_a_limit_nothing_is_repeated() -> None:
    runs = Runs(50.0)

    measure_pair(0, runs, "quix")

    assert len(runs.order) == 2
