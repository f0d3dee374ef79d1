"""The processes of a soak, and what they hold."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.campaigns.toolkit.process import start_module
from tests.performance.events import key_name

_END_S = 60.0
_MIB = 1 << 20


class Watched:
    """A process that prints JSON objects; the last one counts.

    ``between_prints``: it is measured whenever it has printed one, because it rests then and needs
    more in between; else at the moment that is asked for.
    """

    def __init__(
        self, module: str, *arguments: object, log: Path, between_prints: bool = False
    ) -> None:
        self._log = log
        self.told: Mapping[str, Any] = {}
        self._at_rest: dict[str, float] | None = {} if between_prints else None
        self._process = start_module(
            module,
            *arguments,
            log=log,
            stdout=subprocess.PIPE,
            env=dict(os.environ, PYTHONUNBUFFERED="1"),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told = json.loads(line)
            if self._at_rest is not None:
                self._at_rest = self._measure()

    def check_alive(self) -> None:
        """Raise where it has ended."""
        if self._process.poll() is not None:
            tail = self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            raise RuntimeError(f"{self._process.args} ended: {tail}")

    def measured(self) -> dict[str, float]:
        """What the process holds, by the system and by itself."""
        self.check_alive()
        return self._measure() if self._at_rest is None else dict(self._at_rest)

    def _measure(self) -> dict[str, float]:
        process = Path("/proc", str(self._process.pid))
        rollup = _fields(process / "smaps_rollup")
        found: dict[str, float] = {
            "rss_mb": rollup["Rss"] / 1024,
            "pss_mb": rollup["Pss"] / 1024,
            "files": len(list((process / "fd").iterdir())),
            "threads": _fields(process / "status")["Threads"],
        }
        for name, value in self.told.items():
            if name.endswith("_bytes"):
                found[name.replace("_bytes", "_mb")] = value / _MIB
            else:
                found[name] = value
        return found

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that does not end it."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self._reader.join(_END_S)


class Asker:
    """Queries over HTTP, twice a second: a count, and the windows of a key."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.answered = 0
        self.failed: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rng = random.Random(3)
        with httpx.Client(base_url=f"http://{self._address}", trust_env=False) as client:
            while not self._ended.wait(0.5):
                store = rng.choice(("totals", "windows"))
                try:
                    found = client.get(f"/stores/{store}/{key_name(rng.randrange(2_000))}")
                except httpx.HTTPError as exc:
                    self.failed.append(f"{type(exc).__name__}: {exc}")
                    continue
                if found.status_code in (200, 404):
                    self.answered += 1
                else:
                    self.failed.append(f"{found.status_code} {found.text[:200]}")

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()
        self._thread.join(_END_S)


def free_address() -> str:
    """A port of this machine that nothing listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def wait_for(watched: Watched, name: str, limit_s: float = 120.0) -> None:
    """Until the process has told something of that name."""
    deadline_s = time.monotonic() + limit_s
    while name not in watched.told:
        watched.check_alive()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"nothing was told of {name!r} within {limit_s:g} s")
        time.sleep(0.05)


def _fields(path: Path) -> dict[str, int]:
    """The numbers of a file of /proc; kilobytes where it says so."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found
