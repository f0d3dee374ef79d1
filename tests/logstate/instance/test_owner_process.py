"""An Application in a process that was forked from the one that made it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.app import Application
from logstate.contracts.errors import LogstateError
from logstate.instance.channel import Channel
from logstate.testing import FakeCluster
from tests.changelog.killed_process import ROOT
from tests.logstate.flows import counted
from tests.logstate.task.task_bench import topology_of

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def in_a_fork(act: Callable[[], object]) -> int:
    """How a forked process ends that does this: 0, or 1 where it raised, or less by a signal."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001  it must not go on as a test run
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def application(state_dir: Path) -> Application:
    return Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        cluster=FakeCluster({"in": 1, "out": 1}),
    )


USES: dict[str, Callable[[Application], object]] = {
    "start": lambda app: app.start(),
    "run": lambda app: app.run(),
    "with": lambda app: app.__enter__(),
    "store": lambda app: app.store("counts"),
    "is_alive": lambda app: app.is_alive,
    "tasks": lambda app: app.tasks(),
    "metrics": lambda app: app.metrics(),
    "is_ready": lambda app: app.is_ready(),
    "stop": lambda app: app.stop(),
    "pause": lambda app: app.pause(),
    "wait_until_running": lambda app: app.wait_until_running(timedelta(seconds=1)),
    "clean_up": lambda app: app.clean_up(),
}


@pytest.mark.parametrize("use", USES)
def test_a_copy_says_whose_it_is_and_what_to_do(tmp_path: Path, use: str) -> None:
    app = application(tmp_path)

    def act() -> None:
        with pytest.raises(LogstateError) as refused:
            USES[use](app)
        for part in (f"in process {os.getppid()}", f"process {os.getpid()}", "post_worker_init"):
            assert part in str(refused.value)

    assert in_a_fork(act) == 0
    app.close()


def test_closing_a_copy_leaves_the_owner_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = application(tmp_path).start()
    app.wait_until_running()

    def act() -> None:
        with caplog.at_level(logging.WARNING):
            app.close()
        assert "nothing is closed here" in caplog.text

    assert in_a_fork(act) == 0
    assert app.is_alive
    assert app.tasks() == {"0_0": "running"}
    app.close()


#: in a process of its own, because this one has used RocksDB
AFTER_THE_FORK = """
import pathlib, sys
from tests.logstate.instance.test_owner_process import application, in_a_fork
application(pathlib.Path(sys.argv[1]) / "before")
def act():
    with application(pathlib.Path(sys.argv[1])) as app:
        app.wait_until_running()
sys.exit(in_a_fork(act))
"""


def test_an_application_that_is_made_after_the_fork_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AFTER_THE_FORK, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_signal_to_a_forked_process_does_what_it_did_before_run(tmp_path: Path) -> None:
    app = application(tmp_path)
    ends: list[int] = []

    def fork_and_stop() -> None:
        ends.append(in_a_fork(lambda: os.kill(os.getpid(), signal.SIGTERM)))
        app.stop()

    app.on_state_change(lambda _, new: fork_and_stop() if new.value == "running" else None)
    app.run()
    assert ends == [-signal.SIGTERM]


class ClosedCounted:
    """A connection that counts its ends."""

    closed = 0

    def send_bytes(self, buf: bytes, /) -> None: ...

    def recv_bytes(self) -> bytes:
        raise EOFError

    def poll(self, timeout: float | None = 0.0, /) -> bool:
        return False

    def close(self) -> None:
        self.closed += 1


def test_a_forked_process_closes_its_copies_of_pipes_between_processes() -> None:
    connection = ClosedCounted()
    channel = Channel(connection, "test")

    def act() -> None:
        assert connection.closed == 1

    assert in_a_fork(act) == 0
    assert connection.closed == 0
    channel.close()
