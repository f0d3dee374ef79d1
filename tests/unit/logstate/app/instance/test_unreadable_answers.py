"""Reads whose arguments or answers do not survive the way to a worker process and back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from logstate.app.instance import restarts
from logstate.app.instance.by_value import dumps
from logstate.contracts.errors import StoreError
from logstate.queries.requests import Pages
from tests.unhurried import unhurried
from tests.unit.logstate.app.instance.thread_process import Rig
from tests.unit.logstate.flows import counted


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Two workers that run, with hardly a wait before a restart."""
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 1.0)
    with Rig(unhurried({"in": 4, "out": 1}), tmp_path, counted) as rig:
        rig.until_running()
        yield rig


class Odd(str):
    """A key like another; is pickled, and cannot be unpickled."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (str(self),)


def test_an_argument_that_cannot_be_read_there_is_the_fault_of_who_asks(rig: Rig) -> None:
    store = rig.workers.stores.named("counts", None)
    with pytest.raises(StoreError, match=r"argument of the read .* int\(\).*__reduce__"):
        store.get(Odd("k"), partition=0)
    assert store.get("k", partition=0) is None
    assert rig.lives == {0: 1, 1: 1}


def test_an_answer_that_cannot_be_read_here_is_told_to_who_asked(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rig.workers.stores.named("counts", None)
    with monkeypatch.context() as odd:
        odd.setattr(Pages, "reply", lambda *_: Odd("v"))
        with pytest.raises(StoreError, match=r"'counts': the answer of worker \d .* int\(\)"):
            store.get("k", partition=0)
    assert store.get("k", partition=0) is None
    assert rig.lives == {0: 1, 1: 1}
    assert not rig.workers.is_finished


def test_who_was_answered_hears_nothing_of_the_end_that_follows(rig: Rig) -> None:
    """The one that asked has not been woken yet when the worker ends."""
    one, asked = rig.workers._processes[1], Future[tuple[bool, bytes]]()
    one._asked[99] = asked
    one.answered(99, True, dumps("found"))
    rig.alive[1].kill()
    rig.until(lambda: rig.workers.is_finished or rig.lives[1] == 2)
    assert not rig.workers.is_finished
    assert asked.result() == (True, dumps("found"))
