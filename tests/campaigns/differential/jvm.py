"""Kafka Streams' own test driver in a process: a case goes in, what it made of it comes out."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from logstate.local_broker.jar_list import KAFKA_VERSION
from logstate.local_broker.java import Java, find_java
from tests.ivy_jars import ivy_module, resolve_jars
from tests.java_programs import compiled
from tests.patience import PATIENCE_S

_HERE = Path(__file__).resolve().parent
_JARS = (
    ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-streams-test-utils", KAFKA_VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)


def streams_jars(java: Java) -> Path:
    """The folder with the jars of Kafka Streams and of its test driver."""
    return resolve_jars(java, ivy_module(*_JARS), "kafka-streams-test-driver")


class KafkaStreams:
    """The JVM library; a context, whose end is the process's."""

    def __init__(self) -> None:
        java = find_java()
        jars = streams_jars(java)
        self._folder = tempfile.mkdtemp(prefix="differential-")
        command = compiled(java, jars, sorted(_HERE.glob("*.java")), self._folder)
        self._process = subprocess.Popen(
            [*command, "Recorder", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """What it made of the case; ``refused`` where it does not build the topology."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found
