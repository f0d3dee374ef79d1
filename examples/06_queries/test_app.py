"""The queries without a broker."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from typing import Any

import pytest

from logstate import LogstateError, TopologyTestDriver

app = import_module("examples.06_queries.app")


@pytest.fixture
def tally() -> Iterator[Any]:
    """The store of the test driver answers as the application's does."""
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe_all("votes", [("v1", "ada", 0), ("v2", "bob", 1), ("v1", "bob", 2)])
        yield driver.store("tally")


def test_a_candidate_has_the_votes_that_stand(tally: Any) -> None:
    assert app.answer(tally, "/tally/bob") == (HTTPStatus.OK, {"bob": 2})


def test_a_candidate_without_votes_has_none(tally: Any) -> None:
    assert app.answer(tally, "/tally/eve") == (HTTPStatus.OK, {"eve": 0})


def test_all_candidates_are_listed(tally: Any) -> None:
    assert app.answer(tally, "/tally") == (HTTPStatus.OK, {"ada": 0, "bob": 2})


def test_another_path_is_not_found(tally: Any) -> None:
    assert app.answer(tally, "/votes")[0] is HTTPStatus.NOT_FOUND


def test_a_row_that_is_elsewhere_is_not_answered_with_zero() -> None:
    class Elsewhere:
        def get(self, key: str) -> None:
            raise LogstateError(f"partition 3 of {key} is at another instance")

    status, body = app.answer(Elsewhere(), "/tally/ada")
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert "partition 3" in str(body)


def test_the_web_server_answers(tally: Any) -> None:
    with app.web_server(tally, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/tally/bob"
        with urllib.request.urlopen(url, timeout=180) as reply:
            assert json.load(reply) == {"bob": 2}
        server.shutdown()
