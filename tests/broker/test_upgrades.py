"""Every change of the list in tests/campaigns/upgrades, on the real broker, with state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.patient_offsets import committed_offsets
from tests.campaigns.upgrades.change import Change
from tests.campaigns.upgrades.changes import CHANGES
from tests.campaigns.upgrades.topologies import INPUT, OTHER
from tests.campaigns.upgrades.upgrading import Upgrading


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_start_after_a_change_does_what_the_list_says(
    change: Change, bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    cluster = KafkaCluster(bootstrap)
    admin, producer = cluster.admin(), cluster.plain_producer()
    application_id = unique("upgrade")
    prefix = f"{application_id}."
    admin.create_topics([NewTopic(prefix + name, 1, 1, {}) for name in (INPUT, OTHER)])
    input_0 = TopicPartition(prefix + INPUT, 0)

    def send(key: str, value: str, timestamp_ms: int) -> None:
        producer.produce(
            [ProducedRecord(input_0.topic, 0, key.encode(), value.encode(), timestamp_ms)]
        )
        producer.flush()

    def committed() -> int | None:
        return committed_offsets(admin, application_id, [input_0])[input_0].offset

    try:
        settings = {"bootstrap": bootstrap}
        Upgrading(application_id, tmp_path, settings, send, committed, prefix).run(change)
    finally:
        producer.close()
        admin.close()
