"""What the server of an instance writes to the log."""

from __future__ import annotations

import logging
import urllib.request

import pytest
from starlette.responses import PlainTextResponse

from logstate.contracts.serving import Serving
from logstate.http.server import Server
from tests.patience import PATIENCE_S, until


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            return bool(answer.read() == b"yes")
    except OSError:  # it does not listen yet
        return False


def test_a_server_logs_its_address_and_no_steps_of_its_library(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    server = Server(Serving(bind="127.0.0.1:0"))
    server.start(PlainTextResponse("yes"))
    until(lambda: answers(server.address))
    server.stop()
    assert caplog.messages == [f"serving queries at {server.address}"]


def test_lines_of_another_uvicorn_in_the_process_are_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    server = Server(Serving(bind="127.0.0.1:0"))
    server.start(PlainTextResponse("yes"))
    logging.getLogger("uvicorn.error").info("Uvicorn running on http://0.0.0.0:8000")
    server.stop()
    assert "Uvicorn running on http://0.0.0.0:8000" in caplog.messages
