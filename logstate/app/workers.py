"""Create the workers of an Application: one thread of this process, or several processes."""

from __future__ import annotations

from pathlib import Path

from logstate.app.instance.states import Lifecycle
from logstate.app.instance.worker_pool_status import Instance
from logstate.app.instance.worker_process import SpawnedProcess
from logstate.app.instance.worker_processes import WorkerProcesses
from logstate.app.local_worker import LocalWorker
from logstate.app.settings import Settings
from logstate.app.worker_main import MODULE, program
from logstate.changelog.directory import StateDirectory
from logstate.contracts.clients import Cluster
from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.errors import ConfigError


def new_workers(
    settings: Settings,
    target: object,
    state_dir: str | Path,
    cluster: Cluster | None,
    clock: Clock | None,
    lifecycle: Lifecycle,
) -> LocalWorker | WorkerProcesses:
    """Create the workers for the settings. ``target`` is the topology as it was given."""
    if settings.workers == 1:
        cluster, clock = cluster or settings.cluster(), clock or SystemClock()
        return LocalWorker(
            settings, state_dir, cluster, clock, lifecycle, settings.restore_listener
        )
    if cluster is not None or clock is not None:
        raise ConfigError(
            f"workers={settings.workers} are separate processes, but cluster= or clock= is an"
            " object of this process. Leave it out, or test with workers=1: results are the same"
        )

    def clean_up() -> None:
        with StateDirectory(state_dir, settings.application_id, slot=settings.slot) as directory:
            directory.delete_tasks()

    instance = Instance(
        settings.application_id,
        settings.topology,
        settings.workers,
        settings.uncaught_exception_handler,
        settings.restore_listener,
        clean_up,
        settings.summary_intervals,
    )
    return WorkerProcesses(
        instance,
        program(target, settings, state_dir),
        lambda _: SpawnedProcess(MODULE),
        SystemClock(),
        lifecycle,
    )
