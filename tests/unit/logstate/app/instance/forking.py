"""What a copy of an Application does in a forked process.

Each function runs in a process of its own.

A test run has threads and has used RocksDB and Kafka clients. A fork of it may wait forever for a
thread that it has not: where the garbage collector ends a client, for example. So whoever forks
begins as a process that holds nothing but one application:
``python -m tests.unit.logstate.app.instance.forking uses PATH``.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from logstate.app.application import Application
from logstate.app.instance.channel import Channel
from logstate.contracts.errors import LogstateError
from logstate.testing import FakeCluster
from tests.patience import PATIENCE_S
from tests.unit.changelog.killed_process import ROOT
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of

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


def told(what: str, path: Path) -> dict[str, object]:
    """What one of the functions below found, in a new process."""
    command = [sys.executable, "-m", "tests.unit.logstate.app.instance.forking", what, str(path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def uses(path: Path) -> dict[str, object]:
    """How the copy of each use ends."""
    return {use: _end_of_use(path / use, use) for use in USES}


def _end_of_use(path: Path, use: str) -> int:
    app = application(path)

    def act() -> None:
        try:
            USES[use](app)
        except LogstateError as refused:
            text = str(refused)
        else:
            raise AssertionError("it was not refused")
        for part in (f"in process {os.getppid()}", f"process {os.getpid()}", "post_worker_init"):
            assert part in text, text

    ended = in_a_fork(act)
    app.close()
    return ended


def closing(path: Path) -> dict[str, object]:
    """A copy of one that runs is closed."""
    app = application(path).start()
    app.wait_until_running()

    def act() -> None:
        said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("logstate").addHandler(handler)
        app.close()
        assert "nothing is closed here" in "".join(said)

    found = {"copy": in_a_fork(act), "is_alive": app.is_alive, "tasks": dict(app.tasks())}
    app.close()
    return found


def made_after(path: Path) -> dict[str, object]:
    """One is made before the fork, another one after it, and runs."""
    application(path / "before")

    def act() -> None:
        with application(path / "after") as app:
            app.wait_until_running()

    return {"copy": in_a_fork(act)}


def signalled(path: Path) -> dict[str, object]:
    """A copy gets SIGTERM while ``run`` handles the owner's signals."""
    app = application(path)
    ends: list[int] = []

    def fork_and_stop() -> None:
        ends.append(in_a_fork(lambda: os.kill(os.getpid(), signal.SIGTERM)))
        app.stop()

    app.on_state_change(lambda _, new: fork_and_stop() if new.value == "running" else None)
    app.run()
    return {"copies": ends}


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


def pipes(_: Path) -> dict[str, object]:
    """A connection between processes is there at a fork."""
    connection = ClosedCounted()
    channel = Channel(connection, "test")

    def act() -> None:
        assert connection.closed == 1

    found = {"copy": in_a_fork(act), "closed": connection.closed}
    channel.close()
    return found


def application(state_dir: Path) -> Application:
    return Application(
        topology_of(counted),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        cluster=FakeCluster({"in": 1, "out": 1}),
    )


def in_a_fork(act: Callable[[], object]) -> int:
    """How a forked process ends that does this: 0, or 1 where it raised, or less by a signal."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001  it must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    _ALL = (uses, closing, made_after, signalled, pipes)
    _ASKED = {one.__name__: one for one in _ALL}[sys.argv[1]]
    print(json.dumps(_ASKED(Path(sys.argv[2]))))
