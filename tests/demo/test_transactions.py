"""The view on broker-side transactions that the demo's kill rests on."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights.transactions import describe_transaction, list_transactions
from tests.patience import PATIENCE_S


def test_an_open_transaction_is_described_until_it_ends(bootstrap: str) -> None:
    topic = f"described-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    transactional_id = f"demo-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    assert describe_transaction(bootstrap, transactional_id) is None

    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    seen = describe_transaction(bootstrap, transactional_id)
    assert seen is not None
    assert (seen.state, seen.partitions) == ("Ongoing", ((topic, 1),))
    assert seen.start_ms > 0
    assert transactional_id in list_transactions(bootstrap, "Ongoing")

    producer.abort_transaction(PATIENCE_S)
    seen = describe_transaction(bootstrap, transactional_id)
    assert seen is not None
    assert seen.state in {"PrepareAbort", "CompleteAbort"}
    assert seen.partitions == () or seen.state == "PrepareAbort"
    assert transactional_id not in list_transactions(bootstrap, "Ongoing")
    assert transactional_id in list_transactions(bootstrap)
