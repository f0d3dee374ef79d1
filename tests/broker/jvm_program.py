"""Java programs of one file, run with Kafka Streams and its clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

from logstate.local_broker.jar_list import KAFKA_VERSION
from logstate.local_broker.java import find_java
from tests.ivy_jars import ivy_module, resolve_jars
from tests.patience import PATIENCE_S

HERE = Path(__file__).resolve().parent
STREAMS = ("org.apache.kafka", "kafka-streams", KAFKA_VERSION)
SILENT = ("org.slf4j", "slf4j-nop", "1.7.36")


def command(source: str, *arguments: str) -> list[str]:
    """What runs ``source``, a file beside this one."""
    java = find_java()
    jars = resolve_jars(java, ivy_module(STREAMS, SILENT), "kafka-streams")
    return [str(java.executable), "-cp", f"{jars}/*", str(HERE / source), *arguments]


def answer(source: str, *arguments: str, lines: list[str]) -> list[str]:
    """The lines it prints for the lines it is given."""
    done = subprocess.run(
        command(source, *arguments),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
