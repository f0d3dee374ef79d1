"""What an instance answers of its own rows, and how old they may be."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from logstate import serdes
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.serving import Serving
from logstate.contracts.stores import StoreSpec
from logstate.directory.known_instances import KnownInstances
from logstate.directory.metadata import Lookup
from logstate.http.query_handler import QueryHandler
from logstate.queries.requests import Answer, ReadRequest

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("asked", [None, SECOND, 5 * SECOND, 600 * SECOND], ids=str)
def test_a_caller_limits_the_age_of_answers_and_the_server_how_long_it_was_cut_off(
    asked: timedelta | None,
) -> None:
    """An instance that was cut off would answer with rows that another one has changed since."""
    ages: list[tuple[int | None, int | None, bool]] = []

    def read(request: ReadRequest) -> Answer:
        ages.append((request.max_age_ms, request.max_silence_ms, request.standby))
        return Answer(None)

    serving = Serving("127.0.0.1:0", max_age=5 * SECOND)
    spec = StoreSpec("counts", "key_value", serdes.string, serdes.string)
    places = {"counts": StorePlace(spec, 0, True, serdes.string.serializer("log", True))}
    lookup = Lookup(places, KnownInstances(), lambda: 0.0, lambda: None)
    answers = QueryHandler("here", "app", serving, read, lookup)
    request = ReadRequest("here", "counts", 0, "get", ("a",), max_age_ms=ms(asked))
    answers.read(request)
    answers.read(msgspec.structs.replace(request, standby=True))
    expected = [(ms(asked), 5_000, False), (ms(asked), None, True)]
    assert ages == expected, "of copies the caller decides alone"


def ms(age: timedelta | None) -> int | None:
    return None if age is None else age // timedelta(milliseconds=1)
