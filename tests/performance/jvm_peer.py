"""The Kafka Streams program: compiled from its source, with the jars its pom.xml names.

The jars come into the local broker's cache (`tests.ivy_jars`); the classes are compiled
once per state of the source and kept beside them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from logstate.local_broker.jars import cache_directory
from logstate.local_broker.java import Java, find_java
from tests.ivy_jars import ivy_module, resolve_jars

PROJECT = Path(__file__).resolve().parent / "peers" / "kafka-streams"
MAIN_CLASS = "peers.Peer"


class MissingToolError(RuntimeError):
    """Something that cannot be installed from here is missing."""


def class_path() -> tuple[Java, str]:
    """The Java to run it with, and its class path. Compiles at the first call.

    Raises MissingToolError without a ``javac``.
    """
    java = find_java()
    jars = resolve_jars(java, ivy_module(*_dependencies()), "kafka-streams-peer")
    sources = sorted((PROJECT / "src" / "main" / "java").rglob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]
    classes = cache_directory() / f"kafka-streams-peer-classes-{digest}"
    if not classes.exists():
        _compile(_javac(java), jars, sources, classes)
    resources = PROJECT / "src" / "main" / "resources"
    return java, f"{classes}:{resources}:{jars}/*"


def _javac(java: Java) -> str:
    beside = java.home / "bin" / "javac"
    found = str(beside) if beside.exists() else shutil.which("javac")
    if found is None:
        raise MissingToolError(
            f"The Kafka Streams program has to be compiled, and there is no javac: not beside"
            f" {java.executable} ({java.origin}), which is a runtime only, and none on PATH."
            f" Install a JDK 17 or newer, or compare against another peer."
        )
    return found


def _compile(javac: str, jars: Path, sources: list[Path], classes: Path) -> None:
    # Under its final name only when it is complete.
    with tempfile.TemporaryDirectory(dir=classes.parent) as folder:
        out = Path(folder) / "classes"
        command = [javac, "-d", str(out), "-cp", f"{jars}/*", *map(str, sources)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"javac failed:\n{answer.stderr[-2000:]}")
        out.rename(classes)


def _dependencies() -> list[tuple[str, str, str]]:
    """(group, artifact, version) of each dependency in pom.xml, properties filled in."""
    text = (PROJECT / "pom.xml").read_text(encoding="utf-8")
    properties = dict(re.findall(r"<([\w.]+\.version)>([^<]+)</\1>", text))
    found = re.findall(
        r"<dependency>\s*<groupId>([^<]+)</groupId>\s*<artifactId>([^<]+)</artifactId>"
        r"\s*<version>\$\{([^}]+)\}</version>",
        text,
    )
    return [(group, artifact, properties[version]) for group, artifact, version in found]
