"""Every query of the alert rules and of the dashboard finds series of a running application."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from logstate import Application, StreamsBuilder, TumblingWindows
from logstate.metrics.catalogue import CATALOGUE
from logstate.metrics.prometheus import export_to_prometheus
from logstate.testing import FakeCluster
from tests.patience import until

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "docker" / "monitoring"
#: labels that Prometheus adds to the series that it scrapes, and to those of histograms
SCRAPED = {"instance", "job", "le"}


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return found


def queries() -> Iterator[Any]:
    for rule in alerts():
        yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            # Grafana replaces its variables before it asks.
            query = target["expr"].replace("$__rate_interval", "5m").replace("$application", ".+")
            yield pytest.param(query, id=f"{panel['title']}-{target['refId']}")


QUERIES = list(queries())


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of the series of an application and their labels."""
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(0))
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.group_by_key().windowed_by(windows).count(store="counts", emit="close")
    clicks.group_by(lambda _, page: page, name="page", key=str).count(store="pages").to_stream().to(
        "out"
    )
    cluster = FakeCluster({"clicks": 1, "out": 1})
    cluster.produce("clicks", b"ada", b"home", timestamp=1)
    cluster.produce("clicks", b"ada", b"home", timestamp=5_000)
    cluster.produce("clicks", b"ada", b"home", timestamp=1)
    found: dict[str, set[str]] = {}
    with Application(
        builder.build(),
        application_id="shop",
        bootstrap="fake:9092",
        state_dir=tmp_path_factory.mktemp("state"),
        cluster=cluster,
    ) as app:
        registry = CollectorRegistry()
        export_to_prometheus(app.metrics_registry, "shop", registry)

        def are_all_there() -> bool:
            found.clear()
            for family in registry.collect():
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
            return {"logstate_records_produced_total", "logstate_late_records_total"} <= set(found)

        app.wait_until_caught_up()
        until(are_all_there, lambda: str(sorted(found)))
    # Without such an event there is no series yet: the catalogue has its labels.
    for metric in CATALOGUE:
        found.setdefault(f"logstate_{metric.name}", {"application", *metric.labels})
    return found


def selectors(query: str) -> list[tuple[str, set[str]]]:
    """The series of a query, and the labels that it is selected and grouped by."""
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any, grouped: set[str]) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in node.matchers.matchers}
            found.append((node.name, labels | grouped))
            return
        by = getattr(getattr(node, "modifier", None), "labels", None)
        grouped = set(by) if by else grouped
        for name in ("expr", "lhs", "rhs", "vs", "vector_selector", "args"):
            parts = getattr(node, name, None)
            for part in parts if isinstance(parts, list) else [parts]:
                if part is not None:
                    visit(part, grouped)

    visit(promql_parser.parse(query), set())
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_selects_and_groups_by_what_the_application_exports(
    query: str, series: dict[str, set[str]]
) -> None:
    used = selectors(query)
    assert len(used) == len(re.findall(r"logstate_\w+", query)), "a part of the query was missed"
    for name, labels in used:
        assert name in series
        assert labels <= series[name] | SCRAPED, name


def test_an_unknown_series_or_label_would_be_found() -> None:
    assert selectors('sum by (shop) (rate(logstate_x_total{task="1"}[5m]))') == [
        ("logstate_x_total", {"task", "shop"})
    ]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_severity_a_summary_and_a_section_of_the_runbook(
    rule: dict[str, Any],
) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    titles = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}
    grouped = {label for _, labels in selectors(rule["expr"]) for label in labels}
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= grouped


def test_panels_do_not_overlap_and_say_what_they_show() -> None:
    panels = dashboard()["panels"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels]
    assert len(set(places)) == len(panels)
    assert all(one["title"] and one["targets"] for one in panels)
