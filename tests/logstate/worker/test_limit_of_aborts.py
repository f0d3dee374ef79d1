"""One abort is normal operation, a loop of them is a fault."""

from __future__ import annotations

import pytest

from logstate.contracts.errors import AbortableError, BrokerError
from logstate.worker.limits import AbortLimit

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
