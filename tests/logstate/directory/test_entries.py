"""The bytes of an entry, across versions of the library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logstate.directory.entries import Figures, InstanceEntry, decode_entry, encode_entry

ENTRY = InstanceEntry("one", "http://a:1", 3, 1_000, figures=Figures(5, 4, 3, 2, 1.5))


def test_figures_travel_with_an_entry() -> None:
    assert decode_entry(encode_entry(ENTRY)) == ENTRY


def test_an_entry_of_a_version_without_figures_counts_as_nothing() -> None:
    told = json.loads(encode_entry(ENTRY))
    del told["figures"]
    found = decode_entry(json.dumps(told).encode())
    assert found is not None
    assert (found.address, found.figures) == ("http://a:1", Figures())


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_ms": 0},
        {"tasks": {"x": {"claim": 1, "stage": "running"}}},
        {"standbys": {"": 3}},
    ],
)
def test_an_entry_with_numbers_or_tasks_that_there_cannot_be_is_none(wrong: dict[str, Any]) -> None:
    assert decode_entry(json.dumps({**json.loads(encode_entry(ENTRY)), **wrong}).encode()) is None


@pytest.mark.parametrize(
    "wrong", [b"", b"{", b"\xff", b'{"address": "\xff"}', b'{"positions": ' + b"[" * 50_000]
)
def test_bytes_that_are_no_entry_are_none(wrong: bytes) -> None:
    assert decode_entry(wrong) is None


def test_figures_alone_are_no_news() -> None:
    more = InstanceEntry("one", "http://a:1", 3, 1_000, figures=Figures(6, 4, 3, 2, 1.5))
    assert more.without_figures() == ENTRY.without_figures()
