"""The audit counts losses and duplicates by source, and only what readers of committed see."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights import faults, outputs
from examples.flights.outputs import OutputAudit, offsets, records_between
from tests.markers import are_written
from tests.patience import PATIENCE_S, until

TOPICS = ("audited-hours", "audited-totals")


@pytest.fixture
def topics(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    """Output topics of this test alone; the audit takes the names from its module."""
    names = tuple(f"{topic}-{uuid.uuid4().hex}" for topic in TOPICS)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, 4) for name in names]).values():
        created.result()
    monkeypatch.setattr(outputs, "OUTPUT_TOPICS", names)
    yield names
    for deleted in admin.delete_topics(list(names)).values():
        deleted.result()


def produce(
    bootstrap: str, topic: str, sources: list[tuple[int, int]], *, commits: bool = True
) -> None:
    """One transaction with a result for each (partition, offset) of a flight."""
    transactional_id = uuid.uuid4().hex
    config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    producer = Producer(config)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition, offset in sources:
        headers = [("source", f"flights:{partition}:{offset}".encode())]
        producer.produce(topic, b"{}", b"key", partition, headers=headers)
    assert producer.flush(PATIENCE_S) == 0
    if commits:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)
    until(lambda: are_written(bootstrap, transactional_id), "markers are missing")


def audited(bootstrap: str, flights: int) -> OutputAudit:
    audit = OutputAudit(bootstrap, flights)
    try:
        audit.read_to_end()
    finally:
        audit.close()
    return audit


FLIGHTS = [(0, 0), (0, 1), (3, 0)]


def test_one_result_of_each_flight_on_each_topic_is_right(
    bootstrap: str, topics: tuple[str, ...]
) -> None:
    for topic in topics:
        produce(bootstrap, topic, FLIGHTS)
    audit = audited(bootstrap, len(FLIGHTS))
    assert (audit.expected, audit.lost, audit.duplicated) == (6, 0, 0)


def test_a_flight_without_a_result_is_a_loss(bootstrap: str, topics: tuple[str, ...]) -> None:
    produce(bootstrap, topics[0], FLIGHTS)
    produce(bootstrap, topics[1], [(3, 0), (0, 1)])
    audit = audited(bootstrap, len(FLIGHTS))
    assert (audit.lost, audit.duplicated) == (1, 0)


def test_results_that_were_aborted_do_not_count(bootstrap: str, topics: tuple[str, ...]) -> None:
    for topic in topics:
        produce(bootstrap, topic, FLIGHTS[:2])
        produce(bootstrap, topic, FLIGHTS, commits=False)
    audit = audited(bootstrap, len(FLIGHTS))
    assert (audit.lost, audit.duplicated) == (2, 0)


def test_results_that_are_produced_again_are_duplicates(
    bootstrap: str, topics: tuple[str, ...]
) -> None:
    for topic in topics:
        produce(bootstrap, topic, FLIGHTS)
    faults.produce_again(bootstrap, topics[0], records=2)
    audit = audited(bootstrap, len(FLIGHTS))
    assert (audit.lost, audit.duplicated) == (0, 2)


def test_aborted_records_are_on_the_log_for_readers_of_everything_only(
    bootstrap: str, topics: tuple[str, ...]
) -> None:
    produce(bootstrap, topics[0], FLIGHTS, commits=False)
    produce(bootstrap, topics[0], FLIGHTS[:1])
    at = (topics[0], 0)
    ((_, end),) = offsets(bootstrap, [at])
    assert records_between(bootstrap, at, 0, end.written, "read_uncommitted") == 3
    assert records_between(bootstrap, at, 0, end.written, "read_committed") == 1
