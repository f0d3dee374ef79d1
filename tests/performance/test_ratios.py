"""The arithmetic of the comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.performance.figures import Figures, Pair, overall, summary
from tests.performance.ratios import (
    look_again_in_s,
    median,
    percentile,
    ratio,
    warm_records_per_s,
)
from tests.performance.workload import PEERS, WORKLOADS, emits


def figures(peer: str, seconds: float = 10.0, **changes: object) -> Figures:
    plain = Figures(
        peer,
        "update",
        records=1_000,
        seconds=seconds,
        seconds_with_start=seconds + 1,
        cpu_s=2.0,
        cpu_s_after_start=1.0,
        rss_max_mb=100.0,
        outputs=1_000,
        is_verified=True,
        stolen_cpu_s=0.0,
        other_cpu_s=0.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def pair(ours_s: float, theirs_s: float, **theirs: object) -> Pair:
    return Pair(figures("logstate", ours_s), figures("kafka-streams", theirs_s, **theirs))


def test_a_ratio_is_ours_over_theirs_in_records_per_second() -> None:
    assert pair(ours_s=10, theirs_s=25).speed(WORKLOADS["W2"]) == pytest.approx(2.5)


def test_a_restore_counts_from_the_start_of_the_process() -> None:
    assert pair(ours_s=1, theirs_s=3).speed(WORKLOADS["W6"]) == pytest.approx(2.0)


def test_latency_is_compared_by_its_median() -> None:
    slow = Pair(figures("logstate", p50_ms=8.0, p99_ms=30.0), figures("quix", p50_ms=4.0))

    assert slow.speed(WORKLOADS["W7"]) == pytest.approx(2.0)
    assert slow.p99() is None


def test_the_warm_rate_begins_with_the_first_commit_past_thirty_percent() -> None:
    samples = [(0.0, 0), (4.0, 200), (5.0, 350), (6.0, 600), (10.0, 1_000)]

    assert warm_records_per_s(samples, 1_000, 10.0) == pytest.approx((1_000 - 350) / 5)


def test_the_warm_rate_takes_a_commit_of_exactly_thirty_percent() -> None:
    assert warm_records_per_s([(1.0, 300), (8.0, 1_000)], 1_000, 8.0) == pytest.approx(100.0)


def test_one_commit_for_everything_has_no_warm_rate() -> None:
    assert warm_records_per_s([(0.0, 0), (3.0, 1_000)], 1_000, 3.0) is None
    assert warm_records_per_s([], 1_000, 3.0) is None


def test_what_was_not_measured_has_no_ratio() -> None:
    assert ratio(None, 2.0) is None
    assert ratio(2.0, None) is None
    assert ratio(2.0, 0.0) is None
    assert ratio(3.0, 2.0) == pytest.approx(1.5)


def test_a_median_leaves_out_what_is_unknown() -> None:
    assert median([None, 3.0, 1.0, None, 2.0]) == pytest.approx(2.0)
    assert median([None]) is None


def test_a_percentile_never_lies_beyond_the_last_value() -> None:
    values = [float(n) for n in range(1, 101)]

    assert percentile(values, 0.99) == pytest.approx(100.0)
    assert percentile(values, 1.0) == pytest.approx(100.0)
    assert percentile(values, 0.0) == pytest.approx(1.0)


def test_the_observer_looks_away_until_the_end_is_near() -> None:
    nothing_yet = [(0.0, 0)]
    assert look_again_in_s(nothing_yet, 1_000, 0.2) == 0.05
    half, nearly = [(0.0, 0), (10.0, 500)], [(0.0, 0), (10.0, 960)]
    assert look_again_in_s(half, 1_000, 10.0) == 0.25
    assert look_again_in_s(nearly, 1_000, 10.0) == pytest.approx(0.052, abs=0.001)
    assert look_again_in_s(nearly, 1_000, 12.0) == 0.05, "it is late"


def test_a_summary_is_over_the_ratios_of_the_pairs() -> None:
    pairs = [pair(10, 20), pair(10, 40), pair(10, 30)]

    found = summary(WORKLOADS["W2"], pairs)

    assert (found["ratio_min"], found["ratio_median"], found["ratio_max"]) == (2.0, 3.0, 4.0)
    assert found["warm_ratio_median"] is None
    assert found["cpu_ratio_median"] == 1.0
    assert found["is_verified"]


def test_the_last_line_takes_the_worse_of_two_output_policies() -> None:
    by_emit = {"update": [pair(10, 30)], "commit": [pair(10, 15)]}

    line = overall(WORKLOADS["W2"], "kafka-streams", by_emit)  # type: ignore[arg-type]

    assert (line["workload"], line["emit"], line["ratio_median"]) == ("W2", "commit", 1.5)
    assert line["by_emit"]["update"]["ratio_median"] == 3.0


def test_the_worse_latency_is_the_larger_one() -> None:
    def latency(p50_ms: float) -> list[Pair]:
        return [Pair(figures("logstate", p50_ms=p50_ms), figures("quix", p50_ms=10.0))]

    by_emit = {"update": latency(9.0), "commit": latency(12.0)}

    line = overall(WORKLOADS["W7"], "quix", by_emit)  # type: ignore[arg-type]

    assert line["ratio_median"] == pytest.approx(1.2)


def test_one_wrong_output_makes_the_comparison_unverified() -> None:
    pairs = [pair(10, 20), pair(10, 20, is_verified=False)]

    assert not overall(WORKLOADS["W1"], "kafka-streams", {"update": pairs})["is_verified"]


def test_figures_per_million_count_the_start_only_where_they_say_so() -> None:
    run = figures("logstate")

    assert run.cpu_s_per_million == pytest.approx(2_000.0)
    assert run.warm_cpu_s_per_million == pytest.approx(1_000.0)
    assert run.records_per_s == pytest.approx(100.0)


def test_both_policies_are_compared_only_with_a_peer_that_has_both() -> None:
    assert emits(WORKLOADS["W2"], "kafka-streams") == ("update", "commit")
    assert emits(WORKLOADS["W2"], "quix") == ("update",)
    assert emits(WORKLOADS["W1"], "kafka-streams") == ("update",)
    assert PEERS["raw"] == {"W1"}
