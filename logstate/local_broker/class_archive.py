"""The archive of a broker's classes in the JVM's memory layout, stored next to the jars.

A broker that starts loads, verifies and links some seven thousand classes, which is most of what a
start costs. A JVM can write them into one file at its end and map that file at its next start
(application class-data sharing, JEP 350). `make_class_archive` lets one broker start and stop for
it, which takes some ten seconds once; every later start on this machine takes half as long.

Invariants:
    - A file with the final name is complete: the JVM writes to another name first.
    - The name follows from the jars and from the Java, and a JVM looks itself whether both are
      those that made the file: one that does not fit is as if it were not there.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.broker import LocalBroker, data_directory, on_free_ports
from logstate.local_broker.jars import broker_jars
from logstate.local_broker.java import find_java
from logstate.local_broker.jvm import Launch, class_archive
from logstate.local_broker.ports import reserve_port


def make_class_archive(*, timeout_s: float = 180.0) -> Path:
    """The file from which brokers of this machine start; made where it is not there.

    Args:
        timeout_s: how long the broker that is started for it may take to serve.

    Raises:
        ConfigError: Java 17 or later was not found.
        BrokerError: the jars cannot be fetched, the broker does not start, or this Java writes no
            such file.
    """
    java, jars = find_java(), broker_jars()
    archive = class_archive(java, jars)
    with archive.with_name(f".{archive.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            part = archive.with_name(f".{archive.name}.part")
            data = data_directory(None)
            launch = Launch(
                java=java,
                jars=jars,
                data=data,
                temporary=False,  # only a broker that ends in order writes the file
                heap="320m",
                properties={},
                detached=False,
                timeout_s=timeout_s,
                flags=(f"-XX:ArchiveClassesAtExit={part}",),
            )
            try:
                on_free_ports(lambda: _start_and_stop(launch))
                if not part.exists():
                    raise BrokerError(
                        f"{java.executable} wrote no archive of the broker's classes. Likely its"
                        " own archive is missing, as in reduced runtimes. Brokers start"
                        " without one, only slower."
                    )
                part.rename(archive)
            finally:
                part.unlink(missing_ok=True)
                shutil.rmtree(data, ignore_errors=True)
    return archive


def _start_and_stop(launch: Launch) -> None:
    broker = LocalBroker(launch, reserve_port(), reserve_port())
    try:
        broker.begin()
        broker.await_serving()
    finally:
        broker.stop()
