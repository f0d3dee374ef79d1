"""The parts of an Application that are available over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Protocol

from logstate.app.instance.health import Health
from logstate.app.instance.states import ApplicationState
from logstate.app.presence import Presence
from logstate.contracts.stores import StoreSpec
from logstate.http.changes import ChangeFeed
from logstate.http.remote_store import RemoteStore
from logstate.metrics.instruments import Metrics
from logstate.topology.plan.plan import Topology
from logstate.worker.worker_observer import TaskLag


class ServedSource(Protocol):
    """The parts of an Application that this module uses."""

    @property
    def application_id(self) -> str: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def state(self) -> ApplicationState: ...
    @property
    def metrics_registry(self) -> Metrics: ...
    def is_live(self) -> Health: ...
    def is_ready(self, *, max_age: timedelta | None = None) -> Health: ...
    def lags(self) -> dict[str, TaskLag]: ...


class ServedApplication:
    """Serves status, metrics and stores of an Application. Thread-safe."""

    def __init__(self, app: ServedSource, presence: Presence) -> None:
        self._app = app
        self._presence = presence
        self.application_id = app.application_id

    def live(self) -> Health:
        """Report liveness, for probes that restart."""
        return self._app.is_live()

    def ready(self) -> Health:
        """Report readiness, for probes that route; data older than ``max_age`` is not ready."""
        return self._app.is_ready(max_age=self._presence.serving.max_age)

    def status(self) -> dict[str, Any]:
        """Return the status of this instance and its tasks, and the other known instances."""
        app = self._app
        ready, live = self.ready(), self.live()
        return {
            "application_id": self.application_id,
            "instance": self._presence.instance,
            "state": app.state.value,
            "ready": {"ok": bool(ready), "reason": ready.reason},
            "live": {"ok": bool(live), "reason": live.reason},
            "directory": self._presence.link.trouble,
            "tasks": {task: asdict(lag) for task, lag in app.lags().items()},
            "task_counts": self._presence.task_counts(),
            "instances": [
                {
                    "instance": one.instance,
                    "host": one.host,
                    "rack": one.rack,
                    "version": one.version,
                    "workers": one.workers,
                    "stores": one.state_stores,
                    "tasks": one.tasks,
                    "standbys": one.standbys,
                    "figures": one.figures,
                    "silent_ms": one.silent_ms,
                }
                for one in self._presence.lookup.instances()
            ],
        }

    def metrics(self) -> bytes:
        """Return the metrics for Prometheus."""
        from logstate.metrics.prometheus import exposition

        return exposition(self._app.metrics_registry, self.application_id)

    def topology(self, form: str) -> str:
        """Return the topology in Kafka Streams' format (``text``), as ``svg`` or as ``mermaid``."""
        topology = self._app.topology
        drawn = {"svg": topology.to_svg, "mermaid": topology.to_mermaid}
        return drawn.get(form, topology.describe)()

    def stores(self) -> list[dict[str, Any]]:
        """Return the kinds of all stores, and the types of keys and values."""
        topology = self._app.topology
        return [
            {
                "name": spec.name,
                "kind": spec.kind,
                "is_global": spec.name in topology.global_stores,
                "key": spec.key.describe(),
                "value": spec.value.describe(),
            }
            for spec in (*topology.stores.values(), *topology.global_stores.values())
        ]

    def remote_store(
        self, name: str, at_least: Mapping[str, int], *, standbys: bool
    ) -> RemoteStore:
        """Return a store that reads from all instances."""
        present = self._presence
        timeout = present.serving.timeout
        return present.remote_store(name, timeout, at_least, None, standbys=standbys)

    def changes(self, spec: StoreSpec, after: str, *, from_beginning: bool) -> ChangeFeed:
        """Return a reader of the committed changes of all partitions of a store."""
        return self._presence.changes(spec, after, from_beginning=from_beginning)
