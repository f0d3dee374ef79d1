"""The verdict of a soak: what grows, and what only fills up."""

from __future__ import annotations

from tests.campaigns.soak.slopes import BOUNDS, Sample, slopes, table

MINUTES = 61


def run(name: str, of_minute: list[float]) -> list[Sample]:
    return [(60.0 * minute, {name: value}) for minute, value in enumerate(of_minute)]


def test_a_measurement_that_grows_faster_than_its_bound_fails() -> None:
    for name, bound in BOUNDS.items():
        for factor, is_good in ((0.9, True), (1.1, False)):
            grown = [100 + factor * bound * minute for minute in range(MINUTES)]
            (slope,) = slopes(run(name, grown))
            assert slope.is_good is is_good, name
            assert ("**grows**" in table([slope])) is not is_good


def test_what_fills_up_in_the_first_half_is_no_growth() -> None:
    (slope,) = slopes(run("rss_mb", [min(10.0 * minute, 250.0) for minute in range(MINUTES)]))
    assert (slope.per_minute, slope.is_good) == (0.0, True)


def test_what_comes_and_goes_is_no_growth() -> None:
    (slope,) = slopes(run("files", [80.0 + minute % 3 for minute in range(MINUTES)]))
    assert slope.is_good


def test_what_has_no_bound_is_shown_only() -> None:
    (slope,) = slopes(run("reader_reads", [float(minute) for minute in range(MINUTES)]))
    assert (slope.per_minute, slope.bound, slope.is_good) == (1.0, None, True)
