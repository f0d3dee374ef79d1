"""A trace on the real broker: from the header of an input to that of an output."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from logstate import Application
from logstate.contracts.records import ProducedRecord
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.cluster import KafkaCluster
from tests.broker.counting_app import topology
from tests.broker.raw_topic import create_topic
from tests.patience import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADER = ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())


def test_a_trace_goes_on_through_a_repartition_topic_to_the_output(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, exporter, provider = unique("traces"), InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    for topic in ("clicks", "per-user", "per-page"):
        create_topic(bootstrap, f"{name}-{topic}", partitions=1)
    cluster = KafkaCluster(bootstrap, ClientSettings({}, {}, {}, {}), client_id="sender")
    producer = cluster.plain_producer()
    sent = ProducedRecord(f"{name}-clicks", 0, b"ada", b"home", 1, [HEADER])
    producer.produce([sent])
    producer.flush()
    producer.close()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name + "-out", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([f"{name}-per-page"])
    with Application(
        topology(name),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=50),
        trace_ratio=0.0,
    ):
        message = until(lambda: consumer.poll(0.1))
    consumer.close()
    headers = dict(message.headers() or ())
    first, last = (
        next(one for one in exporter.get_finished_spans() if one.name == f"process {topic}")
        for topic in (f"{name}-clicks", f"{name}-by-page-repartition")
    )
    assert headers["traceparent"] == f"00-{TRACE}-{last.context.span_id:016x}-01".encode()
    assert last.parent is not None
    assert last.parent.span_id == first.context.span_id
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == "b7ad6b7169203331"
