"""Worker processes that talk without end, cannot be started, or fail while they are removed."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstate.app.instance import restarts
from logstate.app.instance.states import ApplicationState
from logstate.app.instance.worker_process import SpawnedProcess
from logstate.contracts.clients import Steps
from logstate.contracts.errors import LogstateError, StoreError
from logstate.testing import FakeCluster
from logstate.worker.worker import Worker
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried
from tests.unit.logstate.app.instance.thread_process import Rig, ThreadProcess
from tests.unit.logstate.flows import counted

S = ApplicationState
FULL = OSError(errno.EMFILE, "Too many open files")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly a wait before a restart."""
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 1.0)
    monkeypatch.setattr(restarts, "LONGEST_WAIT_MS", 1.0)


@pytest.fixture
def cluster() -> FakeCluster:
    return unhurried({"in": 4, "out": 1})


@pytest.fixture
def rig(cluster: FakeCluster, tmp_path: Path) -> Iterator[Rig]:
    """Two workers that run."""
    with Rig(cluster, tmp_path, counted) as rig:
        rig.until_running()
        yield rig


# --- talking --------------------------------------------------------------------------------------


def test_a_worker_that_always_has_more_to_say_keeps_nobody_from_anything(rig: Rig) -> None:
    channel, supervisor = rig.workers._processes[0].channel, rig.workers._supervisor
    said = threading.Event()
    has_message, receive = channel.has_message, channel.receive

    def always(timeout_s: float) -> bool:
        return not supervisor.is_stopping or has_message(timeout_s)

    def a_line() -> tuple[str, Any]:
        if supervisor.is_stopping:
            return receive()
        said.set()
        return "log", {"name": "tests.talks", "levelno": 1, "msg": "and"}

    channel.receive, channel.has_message = a_line, always  # type: ignore[method-assign]
    assert said.wait(PATIENCE_S)
    before = rig.workers._statuses[1].at_ms
    rig.until(lambda: rig.workers._statuses[1].at_ms > before)
    rig.workers.stop()
    rig.thread.join(PATIENCE_S)
    assert rig.lifecycle.state is S.STOPPED
    assert supervisor.killed == []


# --- starting -------------------------------------------------------------------------------------


def refuse(rig: Rig, times: int) -> None:
    """The next starts of a process fail."""
    spawn, left = rig.workers._spawn, iter(range(times))

    def full(number: int) -> Any:
        if next(left, None) is not None:
            raise FULL
        return spawn(number)

    rig.workers._spawn = full


def test_a_worker_more_that_cannot_be_started_yet_comes_later(rig: Rig) -> None:
    refuse(rig, times=3)
    assert rig.workers.scale(1) == 3
    rig.until(lambda: rig.lives[2] == 1 and rig.workers.are_tasks_running)
    assert rig.lives == {0: 1, 1: 1, 2: 1}


def test_a_restart_that_the_system_refuses_leaves_the_others_alone(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(rig, times=3)
    rig.alive[1].kill()
    rig.until(lambda: rig.lives[1] == 2)
    rig.until_running()
    assert rig.lives == {0: 1, 1: 2}
    told = f"worker 1 could not be started: OSError: {FULL}"
    assert [one for one in caplog.messages if "could not" in one] == [told] * 3


def test_what_cannot_be_started_at_all_ends_the_instance_cleanly_and_with_the_reason(
    rig: Rig,
) -> None:
    refuse(rig, times=99)
    rig.workers.scale(1)
    rig.thread.join(PATIENCE_S)
    assert rig.lifecycle.state is S.ERROR
    assert isinstance(rig.workers.failure, LogstateError)
    for part in ("worker 2 could not be started", str(FULL), "13 times within 10 minutes"):
        assert part in str(rig.workers.failure)
    assert {number: one.how_it_ended() for number, one in rig.alive.items()} == dict.fromkeys(
        (0, 1), "ended with exit code 0"
    )


def test_a_process_without_a_thread_that_writes_to_it_is_ended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, list[ThreadProcess]()

    def full(thread: threading.Thread) -> None:
        if thread.name == "logstate-worker-2-writer" and not refused:
            refused.append(rig.alive[2])
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", full)
    rig.workers.scale(1)
    rig.until(lambda: rig.lives[2] == 2 and rig.workers.are_tasks_running)
    assert [one.how_it_ended() for one in refused] == ["was killed by SIGKILL"]


def test_a_process_that_cannot_be_started_leaves_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[socket.socket] = []
    pair = socket.socketpair

    def kept() -> tuple[socket.socket, socket.socket]:
        made.extend(pair())
        return made[0], made[1]

    def full(*_: Any, **__: Any) -> Any:
        raise FULL

    monkeypatch.setattr(socket, "socketpair", kept)
    monkeypatch.setattr(subprocess, "Popen", full)
    with pytest.raises(OSError, match="Too many open files"):
        SpawnedProcess("logstate.app.worker_main")
    assert [one.fileno() for one in made] == [-1, -1]


# --- ending ---------------------------------------------------------------------------------------


def test_a_worker_that_fails_while_it_is_removed_stops_nobody_else(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    close = Worker._close

    def failing(worker: Worker, closing: Any) -> Steps[None]:
        yield from close(worker, closing)
        if worker._config.transactional_id == removed:
            raise StoreError("the disk is full")

    with Rig(cluster, tmp_path, counted, uncaught_exception_handler="stop_application") as rig:
        rig.until_running()
        removed = rig.workers._statuses[1].report.transactional_id
        monkeypatch.setattr(Worker, "_close", failing)
        rig.workers.scale(-1)
        rig.until(lambda: len(rig.workers._processes) == 1)
        assert not rig.workers._supervisor.is_stopping
    assert rig.lifecycle.state is S.STOPPED
    assert rig.workers.stops_all == ""
    assert "worker 1 failed: the disk is full" in caplog.messages


def test_the_pipe_that_wakes_an_instance_is_not_closed_while_it_is_written_to(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number would be another file's; and a signal may ask for the end in the midst of it."""
    write, could_close = os.write, list[bool]()
    waking, main = rig.workers._waking, threading.current_thread()

    def others() -> None:
        could_close.append(waking.acquire(blocking=False))

    def interrupted(fd: int, data: bytes) -> int:
        if threading.current_thread() is main and not could_close:
            other = threading.Thread(target=others)
            other.start()
            other.join()
            rig.workers.stop()
        return write(fd, data)

    monkeypatch.setattr(os, "write", interrupted)
    rig.workers.stop()
    assert could_close == [False]
