"""The endpoints of an instance itself: its health, status, metrics, topology and list of stores.

An endpoint is a function here and a line in ``probes`` or ``documents``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from enum import Enum
from typing import Any, Protocol

from logstate.http.parameters import OF_TOPOLOGY, BadRequestError, check_names
from logstate.http.query_handler import QueryHandler
from logstate.http.remote_store import RemoteStore
from logstate.http.responses import Reason, json_response
from logstate.metrics.instruments import Metrics
from logstate.topology.plan.plan import Topology

try:
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

#: formats of the topology
_FORMS = {"text": "text/plain", "svg": "image/svg+xml", "mermaid": "text/plain"}


class ServedApplication(Protocol):
    """The parts of an Application that HTTP serves."""

    @property
    def topology(self) -> Topology: ...
    @property
    def state(self) -> Enum: ...
    @property
    def metrics_registry(self) -> Metrics: ...
    def is_live(self) -> Reason: ...
    def is_ready(self, *, max_age: timedelta | None = None) -> Reason: ...
    def openapi(self, *, prefix: str) -> dict[str, Any]: ...
    def lags(self) -> Mapping[str, Any]: ...
    def remote_store(
        self, name: str, *, timeout: timedelta, at_least: Mapping[str, int], standbys: bool
    ) -> RemoteStore[Any, Any, Any, Any]: ...


class InstanceEndpoints:
    """Reports on an instance. ``probes`` need no token."""

    def __init__(self, served: ServedApplication, answers: QueryHandler) -> None:
        self._served = served
        self._answers = answers
        self.probes: dict[str, Callable[[], Reason]] = {
            "/live": served.is_live,
            "/ready": self._ready,
        }
        self.documents: dict[str, Callable[[Request], Response]] = {
            "/status": self._status,
            "/metrics": self._metrics,
            "/topology": self._topology,
            "/stores": self._stores,
            "/openapi.json": self._openapi,
        }

    def _ready(self) -> Reason:
        return self._served.is_ready(max_age=self._answers.serving.max_age)

    def _status(self, _request: Request) -> Response:
        """Return the status of this instance and its tasks, and the other known instances."""
        served, answers, lookup = self._served, self._answers, self._answers.lookup
        ready, live = self._ready(), served.is_live()
        shown = {
            "application_id": answers.application_id,
            "instance": answers.instance,
            "state": served.state.value,
            "ready": {"ok": bool(ready), "reason": ready.reason},
            "live": {"ok": bool(live), "reason": live.reason},
            "directory": lookup.why_not(),
            "tasks": {task: asdict(lag) for task, lag in served.lags().items()},
            "task_counts": lookup.task_counts(sub.id for sub in served.topology.sub_topologies),
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
                for one in lookup.instances()
            ],
        }
        return json_response(shown)

    def _metrics(self, _request: Request) -> Response:
        from logstate.metrics.prometheus import exposition

        text = exposition(self._served.metrics_registry, self._answers.application_id)
        return Response(text, media_type="text/plain; version=0.0.4")

    def _topology(self, request: Request) -> Response:
        check_names(request.query_params, OF_TOPOLOGY)
        form = request.query_params.get("as", "text")
        if form not in _FORMS:
            raise BadRequestError(f"as must be one of {', '.join(_FORMS)}; got {form!r:.100}")
        topology = self._served.topology
        drawn = {"svg": topology.to_svg, "mermaid": topology.to_mermaid}
        return Response(drawn.get(form, topology.describe)(), media_type=_FORMS[form])

    def _openapi(self, request: Request) -> Response:
        return json_response(self._served.openapi(prefix=request.scope.get("root_path", "")))

    def _stores(self, _request: Request) -> Response:
        """Return the kinds of all stores, and the types of keys and values."""
        topology = self._served.topology
        stores = [
            {
                "name": spec.name,
                "kind": spec.kind,
                "is_global": spec.name in topology.global_stores,
                "key": spec.key.describe(),
                "value": spec.value.describe(),
            }
            for spec in (*topology.stores.values(), *topology.global_stores.values())
        ]
        return json_response({"stores": stores})
