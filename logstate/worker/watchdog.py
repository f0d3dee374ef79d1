"""Check once a second which call the worker is in, and whether the brokers answer.

This runs on a separate thread, because the worker may be waiting for the brokers or for a user
function when something must be logged. The decisions are made by :mod:`logstate.worker.outage` and
:mod:`logstate.worker.slow_calls`. The only client of the worker that it uses is the consumer,
through `stay`. Results are published by single assignments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from logstate.contracts.clients import Probe
from logstate.contracts.clock import Clock
from logstate.worker.outage import Note, Outage
from logstate.worker.slow_calls import active_call
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import WorkerObserver

_LOGGER = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
#: checks between two calls of ``tidy``
_TIDY_EVERY = 60
#: how long an answer may take: a metadata request takes milliseconds
_ANSWER_S = 3.0
#: the watchdog polls after this fraction of max.poll.interval.ms without a poll by the worker
_STAY_SHARE = 10


class Watchdog:
    """Watches a worker. ``check`` makes one check; ``start`` repeats it until ``stop``."""

    def __init__(
        self,
        probe: Probe,
        clock: Clock,
        observer: WorkerObserver,
        worker: Worker,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """``tidy`` is called once a minute in the watchdog thread."""
        self._worker = worker
        self._tidy = tidy
        self._looks = 0
        self._probe = probe
        self._clock = clock
        self._observer = observer
        self.outage = Outage(probe.brokers, clock.monotonic_ms())
        observer.outage = self.outage
        #: the worker's turn at the last check, and since when
        self._turn = -1
        self._turn_since_ms = 0.0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Check the worker and the brokers once."""
        self.look_at_worker()
        self.look_at_brokers()
        self._looks += 1
        if self._looks % _TIDY_EVERY == 0:
            self._tidy()

    def look_at_worker(self) -> None:
        """Log a long function call, and keep the member in the group meanwhile."""
        processing, now_ms = self._worker.processing, self._clock.monotonic_ms()
        place = processing.place()
        turn = -1 if place is None else place.turn
        if turn != self._turn:
            self._turn, self._turn_since_ms = turn, now_ms
        elif (
            place is not None
            and now_ms - self._turn_since_ms >= self._worker.max_poll_interval_ms / _STAY_SHARE
        ):
            self._worker.stay(lambda: processing.turn_now() == turn)
        note = processing.slow_calls.note_position(
            now_ms, place, lambda: active_call(processing.thread_id)
        )
        if note is not None:
            _LOGGER.log(note.level, "%s", note.text)

    def look_at_brokers(self) -> None:
        """Send a request to the brokers if necessary, and log the result."""
        outage, probe, clock = self.outage, self._probe, self._clock
        if not outage.must_send_request(clock.monotonic_ms(), probe.client_errors()):
            return
        note: Note | None
        if probe.ask(_ANSWER_S):
            note = outage.answered(clock.monotonic_ms())
        else:
            client_errors = probe.client_errors()
            note = outage.unanswered(clock.monotonic_ms(), client_errors, self._blocked_text())
        probe.fold(is_away=outage.since_ms is not None)
        if note is not None:
            _LOGGER.log(note.level, "%s", note.text)

    def start(self, name: str) -> None:
        """Start the thread that checks once a second and ends with the process."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(2 * _ANSWER_S)
        self._probe.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self.check()
            except Exception:
                _LOGGER.exception("the check of the worker failed and will be retried")
            self._is_over.wait(_LOOK_EVERY_S)

    def _blocked_text(self) -> str:
        if not self._observer.is_started:
            return "The start waits for them."
        tasks = len(self._observer.tasks)
        return (
            f"{tasks} tasks of this instance are blocked: nothing is processed or committed,"
            " and nothing is lost. Local reads return the last committed state."
        )
