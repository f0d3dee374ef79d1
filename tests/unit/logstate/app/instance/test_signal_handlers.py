"""The first signal asks an application to end, the second one ends it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.app.instance.owner_process import OwnerProcess
from logstate.app.instance.signal_handlers import signal_handlers
from logstate.testing import FakeCluster
from logstate.topology.dsl.builder import StreamsBuilder


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """As in a terminal: who starts a process in the background may have it ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def raised(number: int) -> None:
    os.kill(os.getpid(), number)


def test_the_first_signal_says_what_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    stops: list[None] = []
    with signal_handlers("shop", OwnerProcess("shop"), lambda: stops.append(None)):
        raised(signal.SIGINT)
        assert stops == [None]
    (line,) = caplog.messages
    assert "SIGINT: application shop stops after the current call has returned" in line
    assert "a second signal ends it at once" in line


def test_the_second_signal_does_what_it_did_before(caplog: pytest.LogCaptureFixture) -> None:
    stops: list[None] = []
    before = signal.getsignal(signal.SIGINT)
    with signal_handlers("shop", OwnerProcess("shop"), lambda: stops.append(None)):
        raised(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            raised(signal.SIGINT)
    assert stops == [None]
    assert "SIGINT again: application shop ends at once, as in a crash" in caplog.messages[1]
    assert signal.getsignal(signal.SIGINT) is before


class InTheMidstOfAWrite(logging.Handler):
    """A sink whose reader is late: the line of a signal that comes meanwhile fails."""

    def __init__(self, stops: list[None]) -> None:
        super().__init__()
        self._stops = stops
        #: how often it was asked to stop, and what a signal would do, when a line came
        self.found: list[tuple[int, bool]] = []

    def emit(self, _: logging.LogRecord) -> None:
        is_ours = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        self.found.append((len(self._stops), is_ours))
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")


def test_a_line_that_cannot_be_written_keeps_no_signal_from_its_end() -> None:
    stops: list[None] = []
    sink, logger = (
        InTheMidstOfAWrite(stops),
        logging.getLogger("logstate.app.instance.signal_handlers"),
    )
    logger.addHandler(sink)
    try:
        with signal_handlers("shop", OwnerProcess("shop"), lambda: stops.append(None)):
            raised(signal.SIGINT)
            assert stops == [None]
            with pytest.raises(KeyboardInterrupt):
                raised(signal.SIGINT)
    finally:
        logger.removeHandler(sink)
    assert sink.found == [(1, True), (1, False)], "a third signal does not wait for the line"


def test_the_second_ctrl_c_ends_a_call_that_does_not_return(tmp_path: Path) -> None:
    def hangs(value: str) -> str:
        raised(signal.SIGINT)
        raised(signal.SIGINT)
        return value

    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(hangs, value=str).to("out")
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"k", b"v", timestamp=1)
    app = Application(
        builder.build(), application_id="app", bootstrap="f:1", state_dir=tmp_path, cluster=cluster
    )
    with pytest.raises(KeyboardInterrupt):
        app.run()
    assert cluster.records("out") == []
    app.close()
