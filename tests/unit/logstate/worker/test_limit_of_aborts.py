"""One abort is normal operation, a loop of them is a fault."""

from __future__ import annotations

import logging

import pytest

from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    OutOfRangeError,
    RetriableError,
    StoreCorruptedError,
)
from logstate.contracts.worker_config import WorkerConfig
from logstate.worker.limits import AbortLimit, FailureLimits, replay_level, replay_line
from logstate.worker.outage import Trouble

CAUSE = AbortableError("the broker was slow")


def test_as_many_aborts_as_allowed_are_normal() -> None:
    limit = AbortLimit(3, 600_000)
    for now_ms in (0, 1, 2):
        limit.note(now_ms, CAUSE)


def test_one_more_within_the_window_stops_the_worker_and_names_the_last_cause() -> None:
    limit = AbortLimit(3, 600_000)
    for now_ms in (0, 1, 2):
        limit.note(now_ms, AbortableError("another"))
    with pytest.raises(
        BrokerError, match=r"4 transactions failed within 10 minutes.*the broker was slow"
    ) as caught:
        limit.note(600_000, CAUSE)
    assert caught.value.__cause__ is CAUSE


def test_it_is_not_a_fault_that_the_worker_would_retry() -> None:
    limit = AbortLimit(0, 1)
    with pytest.raises(BrokerError) as caught:
        limit.note(0, CAUSE)
    assert type(caught.value) is BrokerError


def test_aborts_older_than_the_window_are_forgotten() -> None:
    limit = AbortLimit(3, 600_000)
    for now_ms in (0, 1, 2, 600_001, 600_002, 600_003):
        limit.note(now_ms, CAUSE)
    with pytest.raises(BrokerError, match="4 transactions"):
        limit.note(600_004, CAUSE)


# --- which are limited ----------------------------------------------------------------------------


def limits(aborts_max: int = 5) -> FailureLimits:
    return FailureLimits(WorkerConfig("app", "app-one", aborts_max=aborts_max))


OF_BROKERS: list[LogstateError] = [
    AbortableError("out of order"),
    RetriableError("timed out"),
    OutOfRangeError("in-0 at 7"),
]


@pytest.mark.parametrize("cause", OF_BROKERS, ids=repr)
def test_errors_of_the_brokers_are_not_limited(cause: LogstateError) -> None:
    found = limits(0)
    for now_ms in range(100):
        found.note(now_ms, cause)


@pytest.mark.parametrize(
    "cause", [FencedError("another has the id"), StoreCorruptedError("block 7")], ids=repr
)
def test_other_errors_are_limited_as_the_setting_says(cause: LogstateError) -> None:
    found = limits(2)
    for now_ms in range(2):
        found.note(now_ms, cause)
    with pytest.raises(BrokerError, match="3 transactions failed"):
        found.note(2, cause)


@pytest.mark.parametrize("cause", OF_BROKERS, ids=repr)
def test_what_a_slow_function_causes_is_limited_whatever_the_brokers_answer(
    cause: LogstateError,
) -> None:
    found = limits(0)
    with pytest.raises(BrokerError, match="because of a slow function"):
        found.note(0, cause, blame=". It was because of a slow function")


def test_a_producer_that_is_fenced_after_trouble_with_the_brokers_is_not_limited() -> None:
    """Its transaction timed out while the coordinator was down."""
    found = limits(0)
    for now_ms in range(20):
        found.note(now_ms, FencedError("late"), Trouble(is_away=False, was_lately=True))
    with pytest.raises(BrokerError):
        found.note(20, FencedError("late"))


def test_the_rest_between_failures_in_a_row_grows_up_to_a_limit() -> None:
    found, now_ms, rests = limits(), 0, []
    for _ in range(12):
        found.note(now_ms, AbortableError("no"))
        rests.append(next(ms for ms in range(0, 10_001, 50) if not found.must_wait(now_ms + ms)))
        now_ms += rests[-1]
    assert rests == [0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000]


def test_a_commit_in_between_ends_the_row() -> None:
    found = limits()
    for commits in range(20):
        found.note(0, AbortableError("no"), commits=commits)
        assert not found.must_wait(0)


def test_a_failure_long_after_the_last_one_begins_a_row() -> None:
    found = limits()
    for now_ms in range(0, 20 * 60_001, 60_001):
        found.note(now_ms, AbortableError("no"))
        assert not found.must_wait(now_ms)


def test_failures_in_a_row_are_told_as_an_error_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = limits()
    for now_ms in range(0, 120_000, 1_000):
        found.note(now_ms, AbortableError("no leader"))
    assert len(caplog.records) == 2
    assert "6 transactions in a row failed" in caplog.text
    assert "no leader" in caplog.text


@pytest.mark.parametrize(
    ("cause", "is_reported", "level"),
    [
        (AbortableError("x"), False, logging.WARNING),
        (AbortableError("x"), True, logging.DEBUG),
        (FencedError("x"), True, logging.DEBUG),
        (RetriableError("x"), True, logging.DEBUG),
        (OutOfRangeError("x"), False, logging.WARNING),
        (StoreCorruptedError("x"), True, logging.WARNING),
    ],
)
def test_a_replay_after_an_outage_that_was_reported_needs_no_line_of_its_own(
    cause: LogstateError, is_reported: bool, level: int
) -> None:
    trouble = Trouble(is_away=False, was_lately=True, is_reported=is_reported)
    assert replay_level(cause, trouble) == level


def test_the_line_of_a_replay_has_the_cause_and_the_slow_call() -> None:
    assert replay_line(AbortableError("x"), "; f() ran for 9 s") == (
        "the transaction is aborted and its records are replayed: x; f() ran for 9 s"
    )
    assert "the committed offsets are read again" in replay_line(OutOfRangeError("x"), "")
