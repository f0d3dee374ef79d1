"""A generation in a process of its own: how each library is run, when it is ready, how it ends."""

from __future__ import annotations

import atexit
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from logstate.local_broker.jar_list import KAFKA_VERSION
from logstate.local_broker.java import find_java
from tests.ivy_jars import ivy_module, resolve_jars
from tests.java_programs import compiled
from tests.patience import PATIENCE_S

HERE = Path(__file__).resolve().parent
_STREAMS = ("org.apache.kafka", "kafka-streams", KAFKA_VERSION)
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
#: what the JVM says of metadata that it cannot read, before it goes on without its clocks
_FORGETS = "Unsupported offset metadata"
#: what is logged when every task runs
_READY = {
    "J": re.compile("from REBALANCING to RUNNING"),
    "L": re.compile(r"partitions assigned: \S+ \["),
}


class GenerationFailedError(Exception):
    """A library did not run its part."""


class Running:
    """A process that runs one part."""

    def __init__(self, library: str, arguments: tuple[str, ...], log: Path) -> None:
        self._library, self._log = library, log
        with log.open("ab") as output:
            self._said_before = output.tell()
            self._process = subprocess.Popen(
                [*COMMANDS[library](), *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=HERE.parents[2],
            )

    @property
    def is_over(self) -> bool:
        """Whether it ended by itself."""
        return self._process.poll() is not None

    def is_ready(self) -> bool:
        """Whether it has got what it is to work on."""
        return _READY[self._library].search(self.said()) is not None

    def said(self) -> str:
        """What it wrote."""
        return self._log.read_bytes()[self._said_before :].decode(errors="replace")

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def end(self) -> None:
        """End it in order; raises GenerationFailedError where it did not go well."""
        if not self.is_over:
            self._process.communicate(timeout=PATIENCE_S)
        went_well = self._process.returncode in (0, -signal.SIGKILL)
        if not went_well or _FORGETS in self.said():
            raise GenerationFailedError(self._library, self.said()[-3000:])


@contextmanager
def running(library: str, arguments: tuple[str, ...], log: Path) -> Iterator[Running]:
    """A process that does not outlive the block; its input ends with it, and so it does."""
    process = Running(library, arguments, log)
    try:
        yield process
        process.end()
    finally:
        process.kill()


@cache
def _jvm_command() -> tuple[str, ...]:
    java = find_java()
    jars = resolve_jars(java, ivy_module(_STREAMS, _LOGGING), "kafka-streams")
    classes = tempfile.mkdtemp(prefix="takeover-")
    command = compiled(java, jars, [HERE / "Takeover.java"], classes)
    atexit.register(shutil.rmtree, classes, ignore_errors=True)
    return (*command, "Takeover")


def _own_command() -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.campaigns.takeover.ours")


COMMANDS: dict[str, Callable[[], tuple[str, ...]]] = {"J": _jvm_command, "L": _own_command}
