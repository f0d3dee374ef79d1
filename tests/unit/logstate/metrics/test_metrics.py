import json
import threading

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from logstate.metrics.catalogue import (
    CATALOGUE,
    COMMIT_LATENCY,
    COMMITS,
    INPUT_LAG,
    RECORDS_CONSUMED,
    RESTORE_REMAINING,
    WRITE_BUFFER_BYTES,
)
from logstate.metrics.instruments import BUCKETS_SECONDS, Metrics
from logstate.metrics.opentelemetry import export_to_opentelemetry
from logstate.metrics.prometheus import export_to_prometheus
from tests.patience import PATIENCE_S


def test_counters_add_up_per_label() -> None:
    metrics = Metrics()
    metrics.counter(RECORDS_CONSUMED, task="0_0", topic="clicks").add(500)
    metrics.counter(RECORDS_CONSUMED, task="0_0", topic="clicks").add(1)
    metrics.counter(RECORDS_CONSUMED, task="0_1", topic="clicks").add(2)

    assert metrics.snapshot()["records_consumed_total"]["series"] == [
        {"labels": {"task": "0_0", "topic": "clicks"}, "value": 501},
        {"labels": {"task": "0_1", "topic": "clicks"}, "value": 2},
    ]
    assert metrics.total("records_consumed_total") == 503
    assert metrics.total("records_consumed_total", task="0_1") == 2
    assert metrics.total("records_consumed_total", topic="other") == 0


def test_a_snapshot_is_json_and_leaves_out_what_nobody_measured() -> None:
    metrics = Metrics()
    assert metrics.snapshot() == {}
    with_empty = metrics.snapshot(with_empty=True)
    assert with_empty.keys() == {metric.name for metric in CATALOGUE}
    assert not any(one["series"] for one in with_empty.values())

    metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend").set(7)
    metrics.histogram(COMMIT_LATENCY, worker=0).observe(0.003)

    assert set(json.loads(json.dumps(metrics.snapshot()))) == {
        "restore_remaining_records",
        "commit_latency_seconds",
    }


def test_a_snapshot_does_not_change_afterwards() -> None:
    metrics = Metrics()
    counter = metrics.counter(COMMITS, worker=0)
    before = metrics.snapshot()
    counter.add(1)

    assert before["commit_total"]["series"][0]["value"] == 0


def test_a_gauge_can_be_asked_for_when_somebody_looks() -> None:
    metrics, rows = Metrics(), [3]
    metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend").ask(lambda: rows[0])
    rows[0] = 4

    assert metrics.total("restore_remaining_records") == 4


def test_a_gauge_whose_owner_is_gone_keeps_its_last_value() -> None:
    metrics, answers = Metrics(), [5.0]
    gauge = metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend")
    gauge.ask(answers.pop)

    assert gauge.value == 5
    assert gauge.value == 5


def test_a_gauge_may_make_other_instruments_while_it_is_asked() -> None:
    metrics = Metrics()

    def count() -> float:
        metrics.counter(COMMITS, worker=1).add(1)
        return 1

    metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend").ask(count)

    assert "restore_remaining_records" in metrics.snapshot()


def test_a_histogram_counts_into_cumulative_buckets() -> None:
    metrics = Metrics()
    latency = metrics.histogram(COMMIT_LATENCY, worker=0)
    for seconds in (0.001, 0.0011, 0.2, 99):
        latency.observe(seconds)

    series = metrics.snapshot()["commit_latency_seconds"]["series"][0]
    buckets = dict(series["buckets"])

    assert series["count"] == 4
    assert series["sum"] == pytest.approx(99.2021)
    assert (buckets["0.001"], buckets["0.0025"], buckets["30"], buckets["+Inf"]) == (1, 2, 3, 4)
    assert len(buckets) == len(BUCKETS_SECONDS) + 1


def test_what_has_moved_away_leaves_the_gauges_but_not_the_counters() -> None:
    metrics = Metrics()
    metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend").set(9)
    metrics.gauge(WRITE_BUFFER_BYTES, task="0_0").set(9)
    metrics.gauge(WRITE_BUFFER_BYTES, task="0_1").set(8)
    metrics.gauge(INPUT_LAG, topic="clicks", partition=0).set(7)
    metrics.counter(RECORDS_CONSUMED, task="0_0", topic="clicks").add(6)

    metrics.forget(task="0_0")

    assert set(metrics.snapshot()) == {
        "write_buffer_bytes",
        "input_lag_records",
        "records_consumed_total",
    }
    assert metrics.total("write_buffer_bytes") == 8


@pytest.mark.parametrize(
    ("metric", "labels"),
    [(COMMITS, {}), (COMMITS, {"task": "0_0"}), (COMMITS, {"worker": 0, "task": "0_0"})],
)
def test_only_the_labels_of_the_catalogue_are_accepted(metric: object, labels: object) -> None:
    with pytest.raises(TypeError, match="commit_total is a counter with the labels worker"):
        Metrics().counter(metric, **labels)  # type: ignore[arg-type]


def test_an_instrument_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="found a gauge"):
        Metrics().gauge(COMMITS, worker=0)


def test_threads_lose_no_counts() -> None:
    metrics, start = Metrics(), threading.Barrier(4)

    def count() -> None:
        start.wait(timeout=PATIENCE_S)
        for _ in range(2_000):
            metrics.counter(COMMITS, worker=0).add(1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE_S)

    assert metrics.total("commit_total") == 8_000


def test_the_catalogue_says_unit_and_meaning_of_everything() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    for metric in CATALOGUE:
        assert metric.meaning.endswith("."), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.name.endswith("_seconds") == (metric.kind == "histogram"), metric.name
        assert not {"key", "value", "application"} & set(metric.labels), metric.name


def measured() -> Metrics:
    metrics = Metrics()
    metrics.counter(RECORDS_CONSUMED, task="0_0", topic="clicks").add(500)
    metrics.gauge(RESTORE_REMAINING, task="0_0", store="spend").set(7)
    metrics.histogram(COMMIT_LATENCY, worker=0).observe(0.003)
    return metrics


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    text = generate_latest(registry).decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_sees_counters_gauges_and_histograms() -> None:
    registry = CollectorRegistry()
    export_to_prometheus(measured(), "shop", registry)

    samples = scrape(registry)

    assert (
        samples[
            "logstate_records_consumed_total"
            "[('application', 'shop'), ('task', '0_0'), ('topic', 'clicks')]"
        ]
        == 500
    )
    assert (
        samples[
            "logstate_restore_remaining_records"
            "[('application', 'shop'), ('store', 'spend'), ('task', '0_0')]"
        ]
        == 7
    )
    assert (
        samples[
            "logstate_commit_latency_seconds_bucket"
            "[('application', 'shop'), ('le', '0.005'), ('worker', '0')]"
        ]
        == 1
    )
    assert (
        samples["logstate_commit_latency_seconds_sum[('application', 'shop'), ('worker', '0')]"]
        == 0.003
    )


def test_two_applications_share_a_registry() -> None:
    registry = CollectorRegistry()
    export_to_prometheus(measured(), "shop", registry)
    export_to_prometheus(measured(), "bank", registry)
    collector = export_to_prometheus(measured(), "bank", registry)

    text = generate_latest(registry).decode()
    assert text.count("# TYPE logstate_restore_remaining_records ") == 1
    assert sum("restore_remaining_records" in name for name in scrape(registry)) == 2

    collector.remove("bank")
    assert sum("restore_remaining_records" in name for name in scrape(registry)) == 1


def test_opentelemetry_sees_the_same_figures() -> None:
    reader = InMemoryMetricReader()
    export_to_opentelemetry(measured(), "shop", MeterProvider([reader]))

    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: (metric.unit, [(dict(p.attributes), p.value) for p in metric.data.data_points])
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }

    consumed = {"application": "shop", "task": "0_0", "topic": "clicks"}
    assert found["logstate.records_consumed"] == ("{record}", [(consumed, 500)])
    assert found["logstate.restore_remaining_records"][1][0][1] == 7
    assert found["logstate.commit_latency_seconds.count"][1][0][1] == 1
    assert found["logstate.commit_latency_seconds.sum"] == (
        "s",
        [({"application": "shop", "worker": "0"}, 0.003)],
    )
