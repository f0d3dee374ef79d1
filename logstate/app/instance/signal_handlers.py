"""Signals that end ``Application.run``: the first one asks, the second one insists.

The first signal waits for the call of the user's function that runs, and for the commit. Who cannot
wait sends another: it does what it did before ``run``, which for Ctrl-C is a KeyboardInterrupt and
for SIGTERM the end of the process. That is a crash like any other: what was not committed is
processed again.

A handler runs between any two steps of the main thread, also in the midst of the write of a line
that waits for a reader, and a line of its own fails then. So what was asked for is done first, and
what is said of it may fail.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from logstate.app.instance.owner_process import OwnerProcess, does_as_before

_LOGGER = logging.getLogger(__name__)
_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signal_handlers(
    application_id: str, owner: OwnerProcess, stop: Callable[[], object]
) -> Iterator[None]:
    """Until it is left, SIGTERM and SIGINT stop the application; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if owner.passes_on(number, frame, before[number]):
            return
        if asked.is_set():
            _give_back(number, before[number])  # the line may wait: another signal does not
            _say(
                "%s again: application %s ends at once, as by a crash; what was not committed is"
                " processed again at the next start",
                name,
                application_id,
            )
            does_as_before(number, frame, before[number])
            return
        asked.set()
        stop()
        _say(
            "%s: application %s stops once the call that runs has returned and what is done is"
            " committed; a second signal ends it at once",
            name,
            application_id,
        )

    for ours in _NUMBERS:
        before[ours] = signal.signal(ours, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            _give_back(number, handler)


def _give_back(number: int, handler: Any) -> None:
    signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _say(line: str, *arguments: str) -> None:
    with suppress(Exception):  # whatever the sinks of a log raise in the midst of a write
        _LOGGER.warning(line, *arguments)
