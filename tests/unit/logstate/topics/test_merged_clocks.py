"""One set of clocks for tasks that have keys of several."""

from __future__ import annotations

from logstate.topics.merged_clocks import FinalResults, merged_clocks


def test_the_farthest_clock_counts_but_for_those_that_bound_what_waits() -> None:
    tasks = [
        {"store:s": 10, "emitted:s": 5, "earliest:b": 7, "join-watched": -1, "sequence:j": 4},
        {"store:s": 20, "emitted:s": 15, "earliest:b": 9, "join-watched": 12, "sequence:j": 2},
        {"join-watched": 30},
    ]

    assert merged_clocks(tasks) == {
        "store:s": 20,
        "emitted:s": 5,
        "earliest:b": 7,
        "join-watched": 12,
        "sequence:j": 4,
    }
    assert merged_clocks([{"join-watched": -1}]) == {"join-watched": -1}


def test_only_results_that_one_task_sent_and_another_did_not_are_sent_early() -> None:
    windows = FinalResults(size_ms=10, is_end_exclusive=True)
    # One task has sent what ended up to 40 (it began up to 30), another up to 20.
    sent = [ms for ms in range(0, 60, 10) if windows.was_sent_early(ms, 40, 20)]

    assert sent == [20, 30]
    assert not any(windows.was_sent_early(ms, 20, 20) for ms in range(0, 60, 10))
    assert [ms for ms in range(0, 60, 10) if windows.was_sent_early(ms, 20, -1)] == [0, 10]
