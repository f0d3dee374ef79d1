"""The longest simulations run beside the other tests."""

from __future__ import annotations

import pytest

from tests.simulation import command

_LONG = {
    "test_so_do_four_thousand_more": command.FOUR_THOUSAND_MORE,
    "test_so_does_a_crash_at_thousands_of_pairs_of_steps": command.THOUSANDS_OF_PAIRS,
}


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        return
    for name in sorted({item.name for item in session.items} & _LONG.keys()):
        command.begin(*_LONG[name])


def pytest_sessionfinish() -> None:
    command.end_all()
