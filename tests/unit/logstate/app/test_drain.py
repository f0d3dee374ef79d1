"""A stop of an instance that serves queries waits until load balancers have noticed it."""

from __future__ import annotations

from datetime import timedelta
from queue import Empty, SimpleQueue

import pytest

from logstate.app.drain import Drain, StopRequest
from tests.patience import PATIENCE_S

HOUR_S = 3_600.0


class Stopped:
    """Keeps the stops that were carried out."""

    def __init__(self) -> None:
        self.stops: SimpleQueue[tuple[timedelta | None, bool]] = SimpleQueue()

    def __call__(self, within: timedelta | None, *, leaves_group: bool) -> None:
        self.stops.put((within, leaves_group))

    def next(self) -> tuple[timedelta | None, bool]:
        return self.stops.get(timeout=PATIENCE_S)


def test_without_a_period_and_before_its_thread_runs_it_stops_at_once() -> None:
    stopped = Stopped()
    drain = Drain(stopped, lambda: HOUR_S)
    drain.begin(StopRequest(None, leaves_group=True))
    assert stopped.stops.get(block=False) == (None, True)
    drain = Drain(stopped, lambda: 0.0)
    drain.start("drain")
    drain.begin(StopRequest(timedelta(seconds=60), leaves_group=False))
    assert stopped.stops.get(block=False) == (timedelta(seconds=60), False)
    drain.end()


def test_it_stops_after_the_period_and_with_what_is_left_of_the_time() -> None:
    stopped = Stopped()
    drain = Drain(stopped, lambda: 0.05)
    drain.start("drain")
    drain.begin(StopRequest(timedelta(seconds=60), leaves_group=False))
    assert drain.has_begun
    within, _ = stopped.next()
    assert within is not None
    assert timedelta(seconds=59) < within < timedelta(seconds=60)


def test_the_period_is_at_most_half_of_the_time_for_the_stop() -> None:
    stopped = Stopped()
    drain = Drain(stopped, lambda: HOUR_S)
    drain.start("drain")
    drain.begin(StopRequest(timedelta(milliseconds=20), leaves_group=False))
    within, _ = stopped.next()
    assert within is not None
    assert timedelta(milliseconds=9) < within < timedelta(milliseconds=11)


def test_a_second_request_can_shorten_the_period_and_keeps_that_the_group_is_left() -> None:
    stopped = Stopped()
    drain = Drain(stopped, lambda: HOUR_S)
    drain.start("drain")
    drain.begin(StopRequest(None, leaves_group=True))
    drain.begin(StopRequest(timedelta(milliseconds=20), leaves_group=False))
    assert stopped.next()[1]


def test_an_instance_that_ends_meanwhile_is_not_stopped() -> None:
    stopped = Stopped()
    drain = Drain(stopped, lambda: HOUR_S)
    drain.start("drain")
    drain.begin(StopRequest(None, leaves_group=False))
    drain.end()
    thread = drain._thread
    assert thread is not None
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(Empty):
        stopped.stops.get(block=False)
