"""An Application in a process that was forked from the one that made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.logstate.app.instance.forking import USES, told


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return told("uses", tmp_path_factory.mktemp("uses"))


@pytest.mark.parametrize("use", USES)
def test_a_copy_says_whose_it_is_and_what_to_do(ends: dict[str, object], use: str) -> None:
    assert ends[use] == 0


def test_closing_a_copy_leaves_the_owner_as_it_is(tmp_path: Path) -> None:
    assert told("closing", tmp_path) == {"copy": 0, "is_alive": True, "tasks": {"0_0": "running"}}


def test_an_application_that_is_made_after_the_fork_runs(tmp_path: Path) -> None:
    assert told("made_after", tmp_path) == {"copy": 0}


def test_a_signal_to_a_forked_process_does_what_it_did_before_run(tmp_path: Path) -> None:
    assert told("signalled", tmp_path) == {"copies": [-15]}


def test_a_forked_process_closes_its_copies_of_pipes_between_processes(tmp_path: Path) -> None:
    assert told("pipes", tmp_path) == {"copy": 0, "closed": 0}
