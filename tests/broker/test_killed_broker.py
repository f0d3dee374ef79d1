"""A broker that is killed while a transaction ends, and what it does when it is back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from examples.flights.transactions import describe_transaction
from logstate.local_broker.broker import LocalBroker
from tests.campaigns.chaos.environment import brokers_that_start_fast
from tests.campaigns.chaos.proxy import Proxy
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PARTITIONS = 20
NAME = "decided"


def ends(bootstrap: str, isolation: IsolationLevel) -> dict[int, int]:
    """End of every partition; empty where a broker that has just started does not know yet."""
    # A client of its own: an older one asks with leader epochs from before the kill.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = {TopicPartition("t", p): OffsetSpec.latest() for p in range(PARTITIONS)}
    answers = admin.list_offsets(request, isolation_level=isolation, request_timeout=10)
    try:
        return {tp.partition: future.result().offset for tp, future in answers.items()}
    except KafkaException:
        return {}


def commit_without_markers(broker: LocalBroker, proxy: Proxy) -> Producer:
    """A transaction that is decided; its markers cannot reach the partitions."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": NAME})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("t", b"v", b"k", partition)
    assert producer.flush(PATIENCE_S) == 0
    proxy.refuse_new()
    producer.commit_transaction(PATIENCE_S)
    transaction = describe_transaction(broker.bootstrap, NAME)
    assert transaction is not None
    assert transaction.state == "PrepareCommit"
    return producer


def test_a_transaction_decided_before_the_kill_gets_all_its_markers_after_it(
    tmp_path: Path,
) -> None:
    with closing(Proxy()) as proxy, brokers_that_start_fast():
        properties = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with LocalBroker.start(data=tmp_path, heap="320m", properties=properties) as broker:
            proxy.upstream_port = int(broker.bootstrap.rpartition(":")[2])
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result()
            producer = commit_without_markers(broker, proxy)

            broker.kill()
            proxy.heal()
            broker.restart()

            assert "Fencing broker 1" in (tmp_path / "controller.log").read_text()
            everything = dict.fromkeys(range(PARTITIONS), 2)  # a record and its marker
            until(
                lambda: ends(broker.bootstrap, IsolationLevel.READ_COMMITTED) == everything,
                "the last stable offsets stand still",
            )
            until(lambda: ends(broker.bootstrap, IsolationLevel.READ_UNCOMMITTED) == everything)
            del producer
