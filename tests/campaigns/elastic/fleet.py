"""Our instances: processes, what they say they have, and what their logs say they did."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.campaigns.elastic.causes import causes, read_samples
from tests.campaigns.elastic.watcher import PARTITIONS
from tests.campaigns.toolkit.process import kill, start_module

_SETTLED_S = 120.0
_LOOK_S = 0.05
#: more than two lines of what an instance says
_TOLD_BYTES = 16_384
_PARTITIONS = re.compile(r"\bin \[([\d, ]+)\]")
_RESTORED = re.compile(r"task 0_(\d+): restored (\d+) records")


class Told(NamedTuple):
    """What an instance has: task -> stage, and task -> what its copy lacks."""

    tasks: dict[str, str]
    standbys: dict[str, int | None]


class Line(NamedTuple):
    """Of a log."""

    at_s: float
    instance: int
    text: str


class Fleet:
    """Instances below ``path``; those that start have ``standbys`` and are static or not."""

    def __init__(self, bootstrap: str, run: str, path: Path) -> None:
        self._arguments = [bootstrap, run]
        self._path = path
        self.standbys, self.is_static = 1, False
        #: whether those that start note where their workers are
        self.explains = False
        #: where those answer queries that have one
        self.addresses: dict[int, str] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *numbers: int) -> None:
        """Start instances, each in its own directory."""
        for number in numbers:
            folder = self._path / f"instance-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            options = ["--standbys", self.standbys]
            if number in self.addresses:
                options += ["--serve", self.addresses[number]]
            options += ["--static"] if self.is_static else []
            options += ["--causes"] if self.explains else []
            with (folder / "told").open("wb") as out:
                self.processes[number] = start_module(
                    "tests.campaigns.elastic.instance",
                    *(*self._arguments, folder / "state", *options),
                    log=folder / "log",
                    stdout=out,
                )

    def stop(self, *numbers: int) -> None:
        """SIGTERM, and wait for their ends; all at once."""
        for number in numbers:
            self.processes[number].terminate()
        for number in numbers:
            self.end(number)

    def end(self, number: int) -> None:
        """Wait for the end of an instance that was told to."""
        status = self.processes.pop(number).wait(60)
        if status:
            raise RuntimeError(f"instance {number} ended with status {status}; see its log")

    def kill(self, number: int) -> None:
        """SIGKILL."""
        kill(self.processes.pop(number))

    def told(self, number: int) -> Told:
        """What an instance said last."""
        with (self._path / f"instance-{number}" / "told").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TOLD_BYTES))
            lines = file.read().decode().splitlines()
        complete = [line for line in lines[-2:] if line.endswith("}}")]
        return Told(**json.loads(complete[-1])) if complete else Told({}, {})

    def settle(self) -> None:
        """Wait until the tasks are spread evenly, run, and have their copies."""
        self.wait_until(self._is_settled, "the tasks are not spread, or not copied")

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Raises TimeoutError, with what the instances say."""
        deadline = time.monotonic() + _SETTLED_S
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: { {n: self.told(n) for n in self.processes} }")
            time.sleep(_LOOK_S)

    def _is_settled(self) -> bool:
        told = [self.told(number) for number in self.processes]
        share = PARTITIONS // len(told)
        copies = [lag for one in told for lag in one.standbys.values()]
        wanted = PARTITIONS * self.standbys if len(told) > 1 else 0
        return (
            all(len(one.tasks) == share for one in told)
            and all(stage == "running" for one in told for stage in one.tasks.values())
            and len(copies) >= wanted
            and all(lag is not None and lag < 1_000 for lag in copies)
        )

    # ------------------------------------------------------------------ their logs

    def lines(self, phrase: str, since_s: float = 0) -> list[Line]:
        """What any instance said with a phrase, from a time on."""
        found = []
        for log in self._path.glob("instance-*/log"):
            number = int(log.parent.name.rpartition("-")[2])
            for line in log.read_text(errors="replace").splitlines():
                stamp, _, text = line.partition(" ")
                if phrase in text and stamp.replace(".", "", 1).isdigit():
                    found.append(Line(float(stamp), number, text))
        return sorted(line for line in found if line.at_s >= since_s)

    def causes(self, number: int, since_s: float, until_s: float) -> str:
        """What an instance's worker did in a span."""
        path = self._path / f"instance-{number}" / "samples"
        return causes(read_samples(path, since_s, until_s))

    def moved(self, since_s: float) -> set[int]:
        """Partitions that were given to somebody since then."""
        lines = self.lines("partitions assigned", since_s)
        found = [_PARTITIONS.search(line.text) for line in lines]
        return {int(number) for one in found if one for number in one[1].split(",")}

    def restored(self, since_s: float) -> list[int]:
        """Records that were replayed for each task that started since then."""
        lines = self.lines("restored", since_s)
        return [int(n) for line in lines for _, n in _RESTORED.findall(line.text)]

    def promoted(self, since_s: float) -> int:
        """Standbys that became tasks since then."""
        return len(self.lines("its standby is promoted", since_s))

    def close(self) -> None:
        """Kill what is left."""
        for number in list(self.processes):
            self.kill(number)
