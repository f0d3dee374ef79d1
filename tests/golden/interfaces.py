"""What the golden files hold, as the code of today has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import msgspec

from logstate.contracts.serving import Serving
from logstate.metrics.catalogue import CATALOGUE
from logstate.topics.manifest import manifest
from logstate.topology import SessionWindows, StreamsBuilder, TumblingWindows
from tests import patience
from tests.golden.shapes import shape
from tests.unit.logstate.instances import caught_up, cluster_with, instance, shared, until
from tests.unit.logstate.plans import plan_of

FOLDER = Path(__file__).with_name("files")
_SECOND = timedelta(seconds=1)
_PATHS = (
    *("/live", "/ready", "/status", "/stores", "/topology", "/topology?as=json"),
    *("/topics", "/topics/in?limit=2", "/topics/other"),
    *("/stores/counts/k3", "/stores/per-10s/k3", "/stores/per-10s/k3?start=0", "/stores/names/k1"),
    *("/stores/counts?limit=2", "/stores/per-10s?limit=30", "/stores/counts?lower=x"),
    *("/stores/counts/none", "/stores/other/k1", "/stores/counts/k1?color=red"),
    *("/stores/counts?continue=gone", "/nowhere"),
)


def metrics() -> dict[str, Any]:
    """The metrics of an instance."""
    return {
        metric.name: {"kind": metric.kind, "unit": metric.unit, "labels": list(metric.labels)}
        for metric in CATALOGUE
    }


def http_fields() -> dict[str, Any]:
    """The status and the fields of each answer."""
    cluster, found = cluster_with(), dict[str, Any]()
    with (
        TemporaryDirectory() as state,
        instance(cluster, Path(state), serve=Serving("127.0.0.1:0")) as app,
    ):
        until(app, shared(app, 1))
        caught_up(app, cluster)
        until(app, lambda: bool(app.all_instances()[0].figures.read))
        limits = {"trust_env": False, "timeout": patience.PATIENCE_S}
        with httpx.Client(base_url=app.all_instances()[0].host, **limits) as client:
            for path in _PATHS:
                answer = client.get(path)
                found[path] = {"status": answer.status_code, "fields": _fields(answer)}
    return found


def _fields(answer: httpx.Response) -> Any:
    kind = answer.headers["content-type"].partition(";")[0]
    if kind == "application/json":
        return shape(answer.json())
    if kind == "application/x-ndjson":
        return shape([json.loads(line) for line in answer.text.splitlines()])
    return kind


def manifests() -> dict[str, Any]:
    """The manifest of a topology with each kind of field."""

    def declare(builder: StreamsBuilder) -> None:
        events = builder.stream("in", key=str, value=Order)
        words = events.group_by(lambda value: value.user, key=str, name="by-user")
        words.count(store="counts")
        windows = TumblingWindows(size=_SECOND, grace=_SECOND)
        words.windowed_by(windows).count(store="per-second")
        words.windowed_by(SessionWindows(gap=_SECOND)).count(store="sessions")
        builder.table("rows", key=int, value=str, store="rows")

    found = manifest(plan_of(declare, **{"in": 2, "rows": 2}))
    del found["describe"]  # compared with Kafka Streams elsewhere
    return found


class Order(msgspec.Struct):
    """A value with a schema."""

    user: str
    amount: float = 0.0


GOLDEN: Mapping[str, Callable[[], dict[str, Any]]] = {
    "metrics": metrics,
    "http": http_fields,
    "manifest": manifests,
}


def written() -> Iterator[tuple[Path, str]]:
    """Each file, and what it has to hold."""
    for name, content in GOLDEN.items():
        yield FOLDER / f"{name}.json", text_of(content())


def text_of(content: Mapping[str, Any]) -> str:
    """As it stands in a file."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
