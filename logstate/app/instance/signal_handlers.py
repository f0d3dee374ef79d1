"""Signals that end ``Application.run``: the first one stops it gracefully, the second at once.

The first signal waits for the running call of a user function and for the commit. A second signal
does what it did before ``run``, which for Ctrl-C is a KeyboardInterrupt and for SIGTERM the end of
the process. That is a crash like any other: uncommitted records are processed again.

A handler runs between any two steps of the main thread, possibly during a blocked write of a log
line, and then its own log line fails. So the handler acts first, and its log line may fail.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from logstate.app.instance.owner_process import OwnerProcess, handle_as_before

_LOGGER = logging.getLogger(__name__)
_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signal_handlers(
    application_id: str, owner: OwnerProcess, stop: Callable[[], object]
) -> Iterator[None]:
    """Stop the application on SIGTERM and SIGINT inside the context; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if owner.is_forked_and_handled(number, frame, before[number]):
            return
        if asked.is_set():
            _give_back(number, before[number])  # logging may block: another signal does not
            _write_line(
                "%s again: application %s ends at once, as in a crash; uncommitted records are"
                " processed again at the next start",
                name,
                application_id,
            )
            handle_as_before(number, frame, before[number])
            return
        asked.set()
        stop()
        _write_line(
            "%s: application %s stops after the current call has returned and its work is"
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


def _write_line(line: str, *arguments: str) -> None:
    with suppress(Exception):  # log handlers may raise anything during an interrupted write
        _LOGGER.warning(line, *arguments)
