"""The endpoints of an instance itself: its health, status, metrics, topology and list of stores.

An endpoint is a function here and a line in ``probes`` or ``documents``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from enum import Enum
from typing import Any, Protocol

from logstate.contracts.topic_names import topic_name
from logstate.http.parameters import (
    OF_READY,
    OF_TOPOLOGY,
    BadRequestError,
    check_names,
    duration,
    number,
)
from logstate.http.query_handler import QueryHandler
from logstate.http.remote_store import RemoteStore
from logstate.http.responses import Reason, json_response
from logstate.metrics.instruments import Metrics
from logstate.topology.graph.record_counts import TopicCount, received_counts
from logstate.topology.plan.plan import Topology

try:
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

#: formats of the topology
_FORMS = {
    "text": "text/plain",
    "svg": "image/svg+xml",
    "mermaid": "text/plain",
    "json": "application/json",
}
#: widths of a picture
_WIDTH_MIN, _WIDTH_MAX = 200, 10_000


class ServedApplication(Protocol):
    """The parts of an Application that HTTP serves."""

    @property
    def topology(self) -> Topology: ...
    @property
    def state(self) -> Enum: ...
    @property
    def metrics_registry(self) -> Metrics: ...
    def is_live(self) -> Reason: ...
    def openapi(self, *, prefix: str) -> dict[str, Any]: ...
    def lags(self) -> Mapping[str, Any]: ...
    def remote_store(
        self,
        name: str,
        *,
        timeout: timedelta,
        at_least: Mapping[str, int],
        max_age: timedelta | None,
        standbys: bool,
    ) -> RemoteStore[Any, Any, Any, Any]: ...


class IsReady(Protocol):
    """Reports whether requests should be sent to the instance."""

    def __call__(self, max_lag: int | None, max_age: timedelta | None, /) -> Reason: ...


class InstanceEndpoints:
    """Reports on an instance. ``probes`` need no token."""

    def __init__(self, served: ServedApplication, answers: QueryHandler, is_ready: IsReady) -> None:
        self._served = served
        self._answers = answers
        self._is_ready = is_ready
        self.probes: dict[str, Callable[[Request], Reason]] = {
            "/live": lambda _: served.is_live(),
            "/ready": self._ready,
        }
        self.documents: dict[str, Callable[[Request], Response]] = {
            "/status": self._status,
            "/metrics": self._metrics,
            "/topology": self._topology,
            "/stores": self._stores,
            "/openapi.json": self._openapi,
        }

    def _ready(self, request: Request) -> Reason:
        query = request.query_params
        check_names(query, OF_READY)
        return self._is_ready(number(query, "max_lag"), duration(query, "max_age"))

    def _status(self, _request: Request) -> Response:
        """Return the status of this instance and its tasks, and the other known instances."""
        served, answers, lookup = self._served, self._answers, self._answers.lookup
        ready, live = self._is_ready(None, None), served.is_live()
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
        topology, width = self._served.topology, number(request.query_params, "width")
        if width is not None and (form != "svg" or not _WIDTH_MIN <= width <= _WIDTH_MAX):
            raise BadRequestError(
                f"width= is for as=svg, between {_WIDTH_MIN} and {_WIDTH_MAX}; got {width}"
            )
        if form == "json":
            return json_response(self._operators())
        if form == "svg":
            return Response(topology.to_svg(max_width=width), media_type=_FORMS[form])
        drawn = topology.to_mermaid() if form == "mermaid" else topology.describe()
        return Response(drawn, media_type=_FORMS[form])

    def _operators(self) -> dict[str, Any]:
        """Return the operators, and the topics whose counts say how much each receives."""
        topology, application_id = self._served.topology, self._answers.application_id
        received = received_counts(topology.sub_topologies)

        def counted(count: TopicCount) -> dict[str, Any]:
            ref = count.topic
            name = topic_name(application_id, ref.name, is_internal=ref.is_internal)
            return {"topic": name, "is_written": count.is_written}

        parts = [
            {
                "id": part.id,
                "operators": [
                    {
                        "name": node.name,
                        "kind": node.kind,
                        "stores": node.stores,
                        "receives": [counted(one) for one in received[part.id][node.name]]
                        if node.name in received[part.id]
                        else None,
                    }
                    for node in part.nodes
                ],
            }
            for part in topology.description().sub_topologies
        ]
        return {"sub_topologies": parts}

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
