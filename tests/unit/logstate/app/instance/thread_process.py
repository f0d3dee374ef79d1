"""What stands in for a worker process: a thread at the other end of a pipe, on a fake cluster."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Self

from logstate.app.instance.channel import Channel, Connection
from logstate.app.instance.states import Lifecycle
from logstate.app.instance.worker_pool_status import Instance
from logstate.app.instance.worker_processes import StartCommand, WorkerProcesses
from logstate.app.local_worker import LocalWorker
from logstate.app.settings import Settings
from logstate.app.worker_main import ServedWorker
from logstate.contracts.clock import SystemClock
from logstate.testing import FakeCluster
from logstate.testing.fake.consumers import FakeGroupConsumer
from logstate.testing.fake.process import FakeProcess
from logstate.topology import StreamsBuilder
from tests.patience import PATIENCE_S
from tests.unit.logstate.task.task_bench import topology_of


def settings_of(declare: Callable[[StreamsBuilder], object], **changes: Any) -> Settings:
    """The settings of an application on a fake cluster."""
    defaults: dict[str, Any] = {
        "topology": topology_of(declare),
        "application_id": "app",
        "bootstrap": "fake:9092",
        "state_dir": "state",
        "commit_interval": timedelta(milliseconds=5),
        "checkpoint_bytes": 1 << 20,
    }
    return Settings(**(defaults | changes))


class Expelled(FakeProcess):
    """A process that the group misses as soon as it is killed, and never before.

    A short session would expel those as well that stand still for a moment.
    """

    def __init__(self, cluster: FakeCluster, name: str) -> None:
        super().__init__(cluster, name)
        self._consumers: list[FakeGroupConsumer] = []

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> FakeGroupConsumer:
        consumer = super().group_consumer(group_id=group_id, instance_id=instance_id)
        self._consumers.append(consumer)
        return consumer

    def kill(self) -> None:
        with self._cluster.lock:
            super().kill()
            for consumer in self._consumers:
                if consumer._member is not None:
                    consumer._group.leave(consumer._member.id)
            self._cluster.notify()


class ThreadProcess:
    """A life of a worker. ``kill`` cuts it off from the cluster and from its pipe."""

    def __init__(self, cluster: FakeCluster, name: str, settings: Settings, path: Path) -> None:
        ours, theirs = Pipe()
        self.connection: Connection = ours
        self._theirs = theirs
        self._settings = settings
        self._path = path
        self._cluster = Expelled(cluster, name)
        self._how: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def how_it_ended(self) -> str | None:
        return self._how

    def kill(self) -> None:
        self._how = "was killed by SIGKILL"
        self._cluster.kill()
        with (
            contextlib.suppress(OSError),  # it has closed its end itself
            socket.socket(fileno=os.dup(self._theirs.fileno())) as end,
        ):
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        channel = Channel(self._theirs, "theirs")
        with contextlib.suppress(EOFError, OSError):  # killed before it was told anything
            order: StartCommand = channel.receive()[1]
            ServedWorker(channel, order, self._new_worker).serve()
        self._how = self._how or "ended with exit code 0"

    def _new_worker(self, order: StartCommand, lifecycle: Lifecycle, listener: Any) -> LocalWorker:
        settings = replace(
            self._settings,
            slot=order.number,
            uncaught_exception_handler="stop_instance",
            log_summary_interval=None,
        )
        clock = SystemClock()
        return LocalWorker(settings, self._path, self._cluster, clock, lifecycle, listener)


class Rig:
    """An instance whose worker processes are threads; ``with`` starts it."""

    def __init__(
        self,
        cluster: FakeCluster,
        path: Path,
        declare: Callable[[StreamsBuilder], object],
        *,
        workers: int = 2,
        **changes: Any,
    ) -> None:
        self.settings = settings_of(declare, workers=workers, **changes)
        self.lifecycle = Lifecycle()
        self.lives: Counter[int] = Counter()
        self.alive: dict[int, ThreadProcess] = {}
        self.restored: list[Any] = []
        instance = Instance(
            "app",
            self.settings.topology,
            workers,
            self.settings.uncaught_exception_handler,
            self.restored.append,
            lambda: None,
            self.settings.summary_intervals,
        )

        def spawn(number: int) -> ThreadProcess:
            name = f"worker-{number}.{self.lives[number] + 1}"
            self.alive[number] = ThreadProcess(cluster, name, self.settings, path)
            self.lives[number] += 1  # whoever waits for this kills what lives now
            return self.alive[number]

        self.workers = WorkerProcesses(instance, b"", spawn, SystemClock(), self.lifecycle)
        self.thread = threading.Thread(target=self.workers.run, name="instance", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.stop()
        self.thread.join(PATIENCE_S)
        assert self.workers.is_finished

    def until(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true; it is looked at after every turn of the instance."""
        with self.workers.changed:
            assert self.workers.changed.wait_for(lambda: bool(is_true()), PATIENCE_S), "not in time"

    def until_running(self) -> None:
        """Wait until every worker has its tasks, and runs them."""
        self.until(lambda: self.workers.is_finished or self.workers.are_tasks_running)
