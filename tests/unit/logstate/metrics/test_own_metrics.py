"""Metrics that users define: in every export, and of several worker processes together."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from logstate.app.instance.merged_metrics import MergedMetrics, figures_of
from logstate.metrics.catalogue import CATALOGUE, COMMITS
from logstate.metrics.instruments import Metrics
from logstate.metrics.opentelemetry import export_to_opentelemetry
from logstate.metrics.own_metrics import OwnMetrics
from logstate.metrics.prometheus import export_to_prometheus


def own(metrics: Metrics, task: str = "0_0") -> OwnMetrics:
    return OwnMetrics(metrics, task, "tax")


def test_prometheus_sees_them_of_the_applications_that_have_them() -> None:
    registry, shop, bank = CollectorRegistry(), Metrics(), Metrics()
    export_to_prometheus(shop, "shop", registry)
    export_to_prometheus(bank, "bank", registry)
    own(shop).counter("taxed_total", "Orders with tax.", country="no").add(2)
    own(shop).histogram("items", "Items.", unit="items", buckets=(1, 5)).observe(3)
    own(bank).counter("taxed_total", "Something else.").add(9)
    own(bank).gauge("rate", "Rate.").set(0.25)

    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    samples = [sample for family in families for sample in family.samples]
    values = {(s.name, s.labels["application"], s.labels.get("le")): s.value for s in samples}
    assert values["logstate_taxed_total", "shop", None] == 2
    assert values["logstate_rate", "bank", None] == 0.25
    assert values["logstate_items_bucket", "shop", "5"] == 1


def test_numbers_of_other_libraries_are_plain_ones_and_add_up() -> None:
    metrics = Metrics()
    paid = own(metrics).counter("paid_total", "Paid.")
    for amount in (Decimal("1.5"), 0.5, np.int64(3), np.float32(0.25), True):
        paid.add(amount)  # type: ignore[arg-type]
    own(metrics).gauge("rate", "Rate.").set(Decimal("0.25"))  # type: ignore[arg-type]
    own(metrics).gauge("asked", "Asked.").ask(lambda: np.float64(0.5))
    own(metrics).histogram("cents", "Each.", buckets=(1, 5)).observe(np.int64(3))  # type: ignore[arg-type]
    found = json.loads(json.dumps(metrics.snapshot()))
    assert found["paid_total"]["series"][0]["value"] == 6.25
    assert (found["rate"]["series"][0]["value"], found["asked"]["series"][0]["value"]) == (
        0.25,
        0.5,
    )
    assert found["cents"]["series"][0]["buckets"] == [["1", 0], ["5", 1], ["+Inf", 1]]


@pytest.mark.parametrize("amount", [-5, -0.5, nan])
def test_a_counter_that_is_to_go_down_says_what_to_use(amount: float) -> None:
    with pytest.raises(
        ValueError, match=r"a counter only increases, and .* was to be added: use a gaug"
    ):
        own(Metrics()).counter("paid_total", "Paid.").add(amount)


@pytest.mark.parametrize("wrong", [None, "5", [1], object()])
def test_what_is_no_number_is_refused_where_it_is_given_and_breaks_no_export(wrong: Any) -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    export_to_prometheus(metrics, "shop", registry)
    mine = own(metrics)
    mine.gauge("asked", "Asked.").ask(lambda: wrong)
    for give in (
        mine.counter("paid_total", "Paid.").add,
        mine.gauge("rate", "Rate.").set,
        mine.histogram("items", "Items.").observe,
    ):
        with pytest.raises(TypeError, match="a metric takes a number, and was given"):
            give(wrong)
    with pytest.raises(ValueError, match="both must be strings"):
        mine.counter("told_total", wrong if wrong != "5" else None)
    assert b'logstate_rate{application="shop"' in generate_latest(registry)


def test_the_bucket_of_all_others_is_there_once_where_it_is_named_too() -> None:
    metrics = Metrics()
    own(metrics).histogram("items", "Items.", buckets=(1, inf)).observe(3)
    found = metrics.snapshot()["items"]["series"][0]["buckets"]
    assert found == [["1", 0], ["+Inf", 1]]


def test_opentelemetry_sees_those_that_are_defined_after_the_export_began() -> None:
    reader, metrics = InMemoryMetricReader(), Metrics()
    provider = MeterProvider(metric_readers=[reader])
    own(metrics).gauge("rate", "Rate.").set(0.25)
    export_to_opentelemetry(metrics, "shop", provider)
    own(metrics).counter("taxed_total", "Orders with tax.").add(2)

    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: [(point.attributes, point.value) for point in metric.data.data_points]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    provider.shutdown()
    labels = {"application": "shop", "task": "0_0", "node": "tax"}
    assert found == {"logstate.rate": [(labels, 0.25)], "logstate.taxed": [(labels, 2)]}


def test_those_of_worker_processes_are_summed_up_and_stay_when_one_is_gone() -> None:
    merged, one, two = MergedMetrics(), Metrics(), Metrics()
    own(one).counter("taxed_total", "Orders with tax.").add(2)
    own(one).histogram("items", "Items.", unit="items", buckets=(1, 5)).observe(3)
    own(one).gauge("rate", "Rate.").set(0.25)
    own(two).counter("taxed_total", "Orders with tax.").add(3)
    own(two, "0_1").counter("taxed_total", "Orders with tax.").add(4)
    one.counter(COMMITS, worker="0").add(1)
    for number, metrics in ((0, one), (1, two)):
        merged.update(number, pickle.loads(pickle.dumps(figures_of(metrics))))
    merged.ended(0)

    assert merged.total("taxed_total") == 9
    assert merged.total("taxed_total", task="0_0") == 5
    assert merged.snapshot()["items"]["series"][0]["buckets"] == [["1", 0], ["5", 1], ["+Inf", 1]]
    assert "rate" not in merged.snapshot()
    assert merged.total("commit_total", worker="0") == 1


def test_a_process_that_means_something_else_by_a_name_is_left_out() -> None:
    merged, one, two = MergedMetrics(), Metrics(), Metrics()
    own(one).counter("taxed_total", "Orders with tax.").add(2)
    own(two).counter("taxed_total", "Other orders.").add(3)
    merged.update(0, figures_of(one))
    merged.update(1, figures_of(two))
    assert merged.total("taxed_total") == 2


def test_gauges_of_a_task_that_went_away_are_gone_and_its_counters_are_not() -> None:
    metrics = Metrics()
    own(metrics).gauge("rate", "Rate.").set(1)
    own(metrics).counter("taxed_total", "Orders with tax.").add(2)
    metrics.forget(task="0_0")
    assert set(metrics.snapshot()) == {"taxed_total"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("histogram", "wait"), ("gauge", "wait_count")),
        (("gauge", "wait_sum"), ("histogram", "wait")),
        (("histogram", "wait"), ("gauge", "wait_bucket")),
        (("histogram", "wait"), ("counter", "wait_total")),
        (("counter", "wait_total"), ("gauge", "wait")),
        (("gauge", "wait"), ("gauge", "wait_total")),
        (("histogram", "wait"), ("histogram", "wait_count")),
    ],
)
def test_metrics_that_would_be_exported_under_one_name_are_refused(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    export_to_prometheus(metrics, "shop", registry)
    mine = own(metrics)
    getattr(mine, first[0])(first[1], "Waits.")
    with pytest.raises(
        ValueError, match=f"{second[1]!r} and the {first[0]} {first[1]!r} would both"
    ):
        getattr(mine, second[0])(second[1], "Waits.")
    mine.gauge("waiting_count", "Another name.").set(1)
    list(text_string_to_metric_families(generate_latest(registry).decode()))


def test_no_metric_of_the_catalogue_has_a_name_that_is_made_of_another_one() -> None:
    names = [name for metric in CATALOGUE for name in metric.series_names]
    assert len(names) == len(set(names))


def test_lone_surrogates_in_labels_and_meanings_are_exported_as_escapes() -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    export_to_prometheus(metrics, "shop", registry)
    own(metrics, "0_\udc80").counter("paid_total", "Paid \ud800.", shop="caf\u00e9\udfff").add(2)
    shown = generate_latest(registry).decode()
    assert r"logstate_paid_total Paid \\ud800." in shown
    assert r'node="tax",shop="café\\udfff",task="0_\\udc80"' in shown


def test_a_number_that_no_export_can_write_is_refused_where_it_is_given() -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    export_to_prometheus(metrics, "shop", registry)
    mine = own(metrics)
    mine.counter("paid_total", "Paid.").add(2**63)
    mine.gauge("asked", "Asked.").ask(lambda: 10**400)
    for give in (mine.counter("paid_total", "Paid.").add, mine.gauge("rate", "Rate.").set):
        with pytest.raises(ValueError, match="was given one of 1329 bits"):
            give(10**400)
    assert "logstate_paid_total" in generate_latest(registry).decode()
