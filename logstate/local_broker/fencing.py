"""Fencing a broker that was killed, before it starts again.

In a cluster the controllers fence a broker that died: until it is back and has registered, it is
not a leader. A single node is its own controller. After a SIGKILL it reads
that it leads all partitions, loads its transaction coordinators, and detects a second later,
when it registers, that it does not lead yet. Brokers of version 4.3 lose transaction markers at
that time: the coordinator treats partitions without a leader as deleted, skips them, and
marks the transaction as complete (KAFKA-20734). Readers of committed data then wait for ever, or
read aborted records.

So the node first runs as a controller alone for two seconds, until that has fenced the broker, as
the controllers of a cluster would have done.

Invariant: a broker that ended in order, or was never started, starts at once.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.config import controller_log4j_properties, controller_properties
from logstate.local_broker.jvm import Launch, java_command, last_words, unwatch, watch

#: what a controller says when it takes office, and when it fences the broker
_IN_OFFICE, _FENCING = "Performing controller activation", "Fencing broker"
#: so many empty records, ten a second, after it took office, and not a word: the broker was fenced
#: already. Records are counted and not seconds, in which the controller may have stood still.
_SILENT_RECORDS = 100
_END_LIMIT_S = 30.0
_LOG = "controller.log"


def was_killed(launch: Launch) -> bool:
    """Whether a broker has run in this directory and did not end in order."""
    logs = launch.records
    return (logs / "__cluster_metadata-0").exists() and not (logs / ".kafka_cleanshutdown").exists()


def fence(launch: Launch, *, controller_port: int) -> None:
    """Run the node as a controller until it has fenced its broker.

    Raises:
        BrokerError: the controller ended by itself, or did not fence within the time a broker has
            to start; the message ends with the last lines of its log.
    """
    process = _start_controller(launch, controller_port)
    watchdog = watch(process.pid, None)
    try:
        _wait_until_fenced(launch, process)
        _wait_until_written(launch)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
    finally:
        process.kill()
        process.wait()
        unwatch(watchdog)


def _wait_until_written(launch: Launch) -> None:
    """Wait until the controller's decisions are in its log; it reports a decision before that.

    It writes an empty record now and then. Records are written in the order of the decisions, so
    the second growth of the log comes after the fencing.
    """
    log = _records(launch)
    deadline = time.monotonic() + launch.timeout_s
    for _ in range(2):
        before = _size(log)
        while _size(log) == before:
            if time.monotonic() > deadline:
                raise BrokerError(f"The controller has stopped writing to {log}. Is the disk full?")
            time.sleep(0.01)


def _records(launch: Launch) -> Path:
    return launch.records / "__cluster_metadata-0"


def _size(log: Path) -> int:
    return sum(segment.stat().st_size for segment in log.glob("*.log"))


def _start_controller(launch: Launch, port: int) -> subprocess.Popen[bytes]:
    settings = launch.data / "controller.properties"
    settings.write_text(
        controller_properties(controller_port=port, log_directory=launch.records),
        encoding="utf-8",
    )
    log4j = launch.data / "controller-log4j2.properties"
    log4j.write_text(controller_log4j_properties(launch.data), encoding="utf-8")
    (launch.data / _LOG).unlink(missing_ok=True)
    with (launch.data / "jvm.log").open("ab") as output:
        return subprocess.Popen(
            [*java_command(launch, "-Xmx128m", log4j=log4j), "kafka.Kafka", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=launch.data,
            start_new_session=True,
        )


def _wait_until_fenced(launch: Launch, process: subprocess.Popen[bytes]) -> None:
    log = launch.data / _LOG
    deadline = time.monotonic() + launch.timeout_s
    size = records = 0
    while True:
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        now = time.monotonic()
        if _FENCING in said:
            return
        if _IN_OFFICE in said and (size_now := _size(_records(launch))) != size:
            size, records = size_now, records + 1
            if records > _SILENT_RECORDS:
                return
        if process.poll() is not None or now > deadline:
            raise BrokerError(
                "The node was killed, and did not start as a controller to fence its broker. It"
                f" said:\n{said[-2000:] or last_words(launch)}"
            )
        time.sleep(0.05)
