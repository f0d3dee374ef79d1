"""Which local brokers run on this machine: one small JSON file per broker in the cache directory.

The file lets ``logstate broker stop`` find a broker that another process started. It is only a
hint: before a process is treated as that broker, and above all before it is
killed, one argument of its command line must be the broker's own settings. A directory in it is not
enough: an editor or a shell that works there has that, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.jars import cache_directory

#: the kernel frees what a killed process had, on a busy machine when it comes to it
_KILL_LIMIT_S = 60.0


@dataclass(frozen=True)
class RunningBroker:
    """The data about a local broker that are visible from outside."""

    bootstrap: str
    pid: int
    data: str
    temporary: bool
    """Whether its directory is thrown away when it stops."""

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def is_alive(self) -> bool:
        """Whether the process exists and is this broker, not a later owner of its number."""
        return _has_argument(self.pid, f"{self.data}/server.properties")


def register(broker: RunningBroker) -> None:
    """Make the broker visible to other processes."""
    directory = _directory()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{broker.port}.json"
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(asdict(broker)), encoding="utf-8")
    part.replace(path)


def unregister(broker: RunningBroker) -> None:
    """Forget the broker; nothing happens when it is unknown."""
    (_directory() / f"{broker.port}.json").unlink(missing_ok=True)


def running_brokers() -> list[RunningBroker]:
    """The local brokers that are alive, by port; entries of dead ones are removed on the way."""
    alive = []
    for path in sorted(_directory().glob("*.json")):
        try:
            broker = RunningBroker(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if broker.is_alive:
            alive.append(broker)
        else:
            path.unlink(missing_ok=True)
    return alive


def stop_running(broker: RunningBroker, *, timeout_s: float = 90.0) -> None:
    """Stop a broker that any process started; its data go when they were temporary.

    Raises:
        BrokerError: it is still there after ``timeout_s`` and a SIGKILL.
    """
    # Temporary data are deleted anyway, so nothing is gained by an orderly shutdown.
    _signal(broker, signal.SIGKILL if broker.temporary else signal.SIGTERM)
    if not _wait_gone(broker, timeout_s):
        _signal(broker, signal.SIGKILL)
        if not _wait_gone(broker, _KILL_LIMIT_S):
            raise BrokerError(
                f"The broker at {broker.bootstrap} (pid {broker.pid}) did not exit after "
                f"SIGKILL. It may hang in the kernel on a slow disk; try again later."
            )
    if broker.temporary:
        shutil.rmtree(broker.data, ignore_errors=True)
        if Path(broker.data).name.startswith("node-"):
            with contextlib.suppress(OSError):  # until the last node of the cluster is gone
                Path(broker.data).parent.rmdir()
    unregister(broker)


def _signal(broker: RunningBroker, number: signal.Signals) -> None:
    if broker.is_alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker.pid, number)


def _wait_gone(broker: RunningBroker, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while broker.is_alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _has_argument(pid: int, argument: str) -> bool:
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    except OSError:
        return False
    else:
        return os.fsencode(argument) in command_line.split(b"\0")
    answer = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.rstrip().endswith(f" {argument}")  # the broker's last one


def _directory() -> Path:
    return cache_directory() / "brokers"
