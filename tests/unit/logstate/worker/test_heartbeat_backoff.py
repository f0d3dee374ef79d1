"""A worker asks its group for the changes that its siblings announce."""

from __future__ import annotations

from logstate.worker.heartbeat_backoff import SiblingWorkers


def test_a_worker_expects_a_change_for_five_seconds_after_a_sibling_has_started() -> None:
    siblings = SiblingWorkers()
    assert siblings.announces({1: 2}, 2, 0) is not None
    assert siblings.announces({1: 2}, 2, 4_999) is not None
    assert siblings.announces({1: 2}, 2, 5_000) is None


def test_a_worker_expects_a_change_for_five_seconds_after_a_sibling_has_left() -> None:
    siblings = SiblingWorkers()
    siblings.announces({1: 2}, 2, 0)
    assert siblings.announces({}, 2, 6_000) is not None
    assert siblings.announces({}, 4, 11_000) is None


def test_its_first_tasks_do_not_end_the_wait_for_a_sibling_that_joins_the_group_late() -> None:
    siblings = SiblingWorkers()
    siblings.announces({1: 0}, 0, 0)
    assert siblings.announces({1: 0}, 4, 60_000) is not None, "the sibling has joined since"
    assert siblings.announces({1: 2}, 2, 60_100) is None


def test_a_sibling_with_one_task_less_announces_nothing() -> None:
    siblings = SiblingWorkers()
    siblings.announces({1: 1}, 2, 0)
    assert siblings.announces({1: 1}, 2, 5_000) is None
