"""Small Java programs of the tests, compiled where they are run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from logstate.local_broker.java import Java

#: a program of seconds is not worth compiling well
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def compiled(java: Java, jars: Path, sources: Iterable[Path], classes: str) -> tuple[str, ...]:
    """The command that runs a class of these sources, but for its name."""
    path = ":".join(map(str, [classes, *jars.glob("*.jar")]))
    compiler = ("-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-d", classes)
    command = [str(java.executable), *compiler, "-cp", path, *map(str, sources)]
    subprocess.run(command, check=True)
    # Where its native libraries unpack themselves, and stay when it is killed.
    temporary = f"-Djava.io.tmpdir={classes}"
    return (str(java.executable), *_QUICK_START, temporary, "-cp", path)
