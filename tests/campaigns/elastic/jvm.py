"""The JVM library's instances, on the same broker with the same settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.campaigns.elastic.flow import COMMIT_INTERVAL_MS
from tests.performance.jvm_peer import MAIN_CLASS, class_path

_STATES = ("CREATED", "REBALANCING", "RUNNING", "PENDING_ERROR", "ERROR", "NOT_RUNNING")


class JvmFleet:
    """Processes below ``path`` that count like ours."""

    def __init__(self, bootstrap: str, run: str, path: Path, session_timeout_ms: int) -> None:
        self._path = path
        self._config: dict[str, object] = {
            "workload": "count",
            "in": "in",
            "out": f"{run}-out",
            "application.id": run,
            "bootstrap.servers": bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": COMMIT_INTERVAL_MS,
            "num.standby.replicas": 1,
            "statestore.cache.max.bytes": 0,
            "replication.factor": 1,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": session_timeout_ms // 10,
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *numbers: int) -> None:
        """Start instances, each in its own directory."""
        java, path = class_path()
        for number in numbers:
            folder = self._path / f"jvm-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            config = {**self._config, "state.dir": folder / "state"}
            flags = ("-Xmx384m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}")
            command = [str(java.executable), *flags, "-cp", path]
            arguments = [f"{key}={value}" for key, value in config.items()]
            with (folder / "log").open("ab") as log:
                self._processes[number] = subprocess.Popen(
                    [*command, MAIN_CLASS, *arguments], stdout=log, stderr=log
                )

    def are_running(self) -> bool:
        """Whether the last that each said of its state is RUNNING."""
        return all(self._state(number) == "RUNNING" for number in self._processes)

    def _state(self, number: int) -> str:
        said = (self._path / f"jvm-{number}" / "log").read_text(errors="replace").splitlines()
        states = [
            line.split()[0] for line in said if line.split()[:1] and line.split()[0].isupper()
        ]
        known = [s for s in states if s in ("CREATED", "REBALANCING", "RUNNING", "ERROR")]
        return known[-1] if known else ""

    def kill(self, number: int) -> None:
        """SIGKILL."""
        process = self._processes.pop(number)
        process.kill()
        process.wait(10)

    def close(self) -> None:
        """Kill what is left."""
        for number in list(self._processes):
            self.kill(number)
