"""Whoever is told and only looks on: refused where a call does nothing, logged where it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import ConfigError
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send


async def waits(*given: object) -> None: ...


def yields(*given: object) -> Any:
    yield given


class Awaited:
    async def __call__(self, *given: object) -> None: ...


class Bound:
    async def listen(self, *given: object) -> None: ...


def of_four(a: object, b: object, c: object, d: object) -> str:
    return "stop_instance"


#: what cannot be a listener, and what its error says
WRONG: dict[str, tuple[Any, str]] = {
    "a coroutine function": (waits, "async def"),
    "a partial of one": (functools.partial(waits, 1), "async def"),
    "a method of one": (Bound().listen, "async def"),
    "an object of one": (Awaited(), "async def"),
    "a generator function": (yields, "generator function"),
    "a function of four": (of_four, "does not take that: missing a required argument"),
    "a function of none": (lambda: None, "does not take that: too many positional"),
    "text": ("print", "must be a function of"),
    "a number": (5, "must be a function of"),
}
wrong = pytest.mark.parametrize(("listener", "found"), WRONG.values(), ids=WRONG)


def application(tmp_path: Path, **settings: Any) -> Application:
    return Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=FakeCluster({"in": 1, "out": 1}),
        **settings,
    )


@wrong
def test_what_cannot_be_told_of_states_is_refused(
    tmp_path: Path, listener: Any, found: str
) -> None:
    app = application(tmp_path)
    with pytest.raises(ConfigError, match="the state listener") as refused:
        app.on_state_change(listener)
    assert found in str(refused.value)
    app.close()


@wrong
def test_what_cannot_be_told_of_restores_is_refused(
    tmp_path: Path, listener: Any, found: str
) -> None:
    with pytest.raises(ConfigError, match="restore_listener") as refused:
        application(tmp_path, restore_listener=listener)
    assert found in str(refused.value)


@wrong
def test_what_cannot_answer_for_a_failure_is_refused(
    tmp_path: Path, listener: Any, found: str
) -> None:
    with pytest.raises(ConfigError, match="uncaught_exception_handler") as refused:
        application(tmp_path, uncaught_exception_handler=listener)
    assert found in str(refused.value) or isinstance(listener, str | int)


RIGHT: dict[str, Any] = {
    "a method": [].append,
    "an object": type("Told", (), {"__call__": lambda self, *given: None})(),
    "a partial": functools.partial(print, "told of"),
    "a lambda with a default": lambda one, two=None: None,
    "a function of any": lambda *given: None,
}


@pytest.mark.parametrize("listener", RIGHT.values(), ids=RIGHT)
def test_whatever_takes_the_progress_of_a_restore_will_do(tmp_path: Path, listener: Any) -> None:
    application(tmp_path, restore_listener=listener).close()


def stop() -> None:
    next(iter(()))


def fail() -> None:
    raise ValueError("no pager")


@pytest.mark.parametrize("call", [fail, stop], ids=["an error", "StopIteration"])
def test_a_restore_goes_on_past_a_listener_that_raises(
    call: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    first = WorkerRig(cluster, counted).start().until_running()
    send(cluster, "a", "b", "a")
    first.commit()
    first.stop()
    told: list[object] = []

    def listen(progress: object) -> None:
        told.append(progress)
        call()

    again = WorkerRig(cluster, counted, name="two", disk=Disk(), listener=listen)
    again.start().until_running()
    send(cluster, "a")
    again.commit()
    again.stop()
    assert told
    assert outputs(cluster)[-1] == ("a", "3")
    assert "the restore listener" in caplog.text
    assert "test_listeners.py" in caplog.text
