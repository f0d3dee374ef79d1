"""User code so slow that a full batch outlives the transaction's time-out, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.group_settings import expect_heartbeats_within
from tests.broker.patient_offsets import committed_offsets
from tests.patience import PATIENCE_S, until

#: a process may stand still for less; all the records together take longer
TRANSACTION_TIMEOUT_MS = 20_000
COST_MS = 60
RECORDS = 500


def topology(prefix: str) -> Topology:
    def work(value: str) -> str:
        Event().wait(COST_MS / 1000)  # as a function does that waits for another service
        return value

    builder = StreamsBuilder()
    values = builder.stream(f"{prefix}-in", key=str, value=str).map_values(work, value=str)
    values.group_by_key().count(store="counts").to_stream().to(f"{prefix}-out")
    return builder.build()


def test_slow_records_are_committed_before_their_transaction_times_out(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("slow")
    cluster = KafkaCluster(
        bootstrap,
        {"socket.timeout.ms": TRANSACTION_TIMEOUT_MS},  # must not be longer
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    expect_heartbeats_within(bootstrap, name)
    admin = cluster.admin()
    inputs = TopicPartition(f"{name}-in", 0)
    admin.create_topics([NewTopic(f"{name}-{end}", 1, 1, {}) for end in ("in", "out")])
    producer = cluster.plain_producer()
    app = Application(
        topology(name),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=tmp_path,
        cluster=cluster,
        commit_interval=timedelta(seconds=1),
    )

    def send(count: int, is_there: Callable[[], bool]) -> None:
        producer.produce([ProducedRecord(inputs.topic, 0, b"k", b"v", 1) for _ in range(count)])
        producer.flush()
        until(is_there, lambda: f"{committed()} committed")

    def committed() -> int:
        return committed_offsets(admin, name, [inputs])[inputs].offset or 0

    def total(metric: str) -> float:
        return app.metrics_registry.total(metric)

    with app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        # A transaction is to be open when the many arrive: just after one was committed.
        send(1, lambda: committed() == 1)
        send(1, lambda: total("records_consumed_total") == 2)
        send(RECORDS, lambda: committed() == RECORDS + 2)
        aborted = total("transactions_aborted_total")
    producer.close()
    admin.close()
    assert aborted == 0
