"""What an instance answers of its own rows, and how old they may be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.http.query_handler import QueryHandler

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [(None, 5 * SECOND), (SECOND, SECOND), (5 * SECOND, 5 * SECOND), (600 * SECOND, 5 * SECOND)],
    ids=str,
)
def test_a_caller_may_lower_the_age_of_answers_and_never_raise_it_above_the_servers(
    asked: timedelta | None, allowed: timedelta
) -> None:
    """An instance that was cut off would answer with rows that another one has changed since."""
    ages: list[tuple[timedelta | None, bool]] = []

    def store(name: str, max_age: timedelta | None, standbys: bool) -> Any:
        ages.append((max_age, standbys))
        raise StoreUnavailableError(name)

    serving = Serving("127.0.0.1:0", max_age=5 * SECOND)
    answers = QueryHandler("here", "app", serving, {}, store, cast("Any", None))
    with pytest.raises(StoreUnavailableError):
        answers.read("counts", 0, "get", ("a",), {}, asked)
    with pytest.raises(StoreUnavailableError):
        answers.read("counts", 0, "get", ("a",), {}, asked, standby=True)
    assert ages == [(allowed, False), (asked, True)], "of copies the caller decides alone"
