"""Timers whose callbacks fail, with and without error handlers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.task.error_handlers import Decision, ErrorHandlers, FailedRecord, retry, skip
from tests.unit.topology.processor.timed_processors import Sees, calls, driver_of


class Fails(Sees):
    """The timers of "bad" raise."""

    def due(self, key: str, at_ms: int) -> None:
        super().due(key, at_ms)
        if key == "bad":
            raise RuntimeError(key)


def test_a_timer_that_fails_is_tried_again_and_skipped_before_its_record() -> None:
    failed: list[FailedRecord] = []
    twice = retry(2, backoff=timedelta(milliseconds=5), then=skip)

    def handler(record: FailedRecord) -> Decision:
        failed.append(record)
        return twice(record)

    with driver_of(Fails, error_handlers=ErrorHandlers(processing=handler)) as driver:
        driver.pipe_all("in", [("a", 4, 0), ("bad", 5, 0), ("late", 6, 0), ("c", 99, 9)])
        assert calls(driver) == ["a@0", "tick@0", "bad@0", "late@0"]
        assert driver.task.stream_time == 0
        driver.advance_wall_clock(5)
        assert calls(driver) == ["!a@4/9", "!late@6/9", "c@9"]
        assert [timer.at_ms for timer, _ in driver.store("timers").all()] == [99]
        assert driver.task.skipped_total == 1
    assert [(one.stage, one.attempt, one.node) for one in failed] == [
        ("punctuation", 1, "remind"),
        ("punctuation", 2, "remind"),
    ]
    assert "schedule 'timers of remind', called at 9, task 0_0" in str(failed[0].error)
    assert "test_failing_timers.py" in str(failed[0].error)


@pytest.mark.parametrize("kind", ["stream_time", "wall_clock"])
def test_a_timer_that_fails_does_not_stop_the_timers_of_other_keys(kind: Any) -> None:
    class OfKind(Fails):
        pass

    OfKind.kind = kind
    with driver_of(OfKind, error_handlers=ErrorHandlers(processing=skip)) as driver:
        driver.pipe_all("in", [("a", 4, 0), ("bad", 5, 0), ("bad", 6, 0), ("b", 7, 0)])
        driver.take_outputs()
        driver.advance_wall_clock(9)
        driver.pipe("in", "c", 50, timestamp=9)
        assert [call.split("/")[0] for call in calls(driver) if call[0] == "!"] == ["!a@4", "!b@7"]
        assert driver.task.skipped_total == 2


@pytest.mark.parametrize("commit_every", [1, 100])
def test_a_timer_that_failed_and_is_set_again_runs_again(commit_every: int) -> None:
    class FailsOnce(Sees):
        has_failed = False

        def due(self, key: str, at_ms: int) -> None:
            if key == "bad" and not self.has_failed:
                self.has_failed = True
                raise RuntimeError(key)
            super().due(key, at_ms)

    handlers = ErrorHandlers(processing=skip)
    with driver_of(FailsOnce, error_handlers=handlers, commit_every=commit_every) as driver:
        driver.pipe_all("in", [("bad", 5, 0), ("a", 99, 9), ("bad", 5, 9), ("b", 99, 10)])
        assert calls(driver) == ["bad@0", "tick@0", "a@9", "bad@9", "!bad@5/10", "b@10", "tick@10"]
