"""One life of a program: what it reports, line by line, until it ends or is killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple, Self

from tests.campaigns.spark_versions.columns import kill, started

#: longer than a query is started again because Python was late
_SILENT_AT_MOST_S = 1_800
_GONE_S = 120


class Step(NamedTuple):
    """A line that the program reported."""

    name: str
    values: Any


class Life:
    """A program in a process group of its own, killed at the end of the ``with`` block."""

    def __init__(self, python: Path, program: str, given: Mapping[str, Any], folder: Path) -> None:
        command = [str(python), str(Path(__file__).parent / program), json.dumps(given)]
        self._folder = folder
        self.process = started(command, folder)
        self._steps: Queue[Step | None] = Queue()
        Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL it and what it started."""
        kill(self.process)
        self.process.wait(_GONE_S)

    def step(self) -> Step:
        """The next line. Raises AssertionError with its errors if it ended or says nothing."""
        try:
            found = self._steps.get(timeout=_SILENT_AT_MOST_S)
        except Empty:
            found = None
        assert found is not None, (self._folder / "stderr").read_text()[-6_000:]
        return found

    def steps_now(self) -> list[Step]:
        """The lines that nobody has taken, of a program that has ended."""
        found = []
        while (step := self._steps.get(timeout=_SILENT_AT_MOST_S)) is not None:
            found.append(step)
        return found

    def go_on(self, number: int) -> None:
        """Answer a query that has stopped."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError((self._folder / "stderr").read_text()[-6_000:]) from None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                name, _, values = line[1:].partition(" ")
                self._steps.put(Step(name, json.loads(values)))
        self._steps.put(None)
