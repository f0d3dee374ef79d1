"""Settings of one consumer group."""

from __future__ import annotations

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.patience import PATIENCE_S

#: longer than any process of a test stands still; the brokers allow no more than 60 s
PATIENT_MS = 45_000


def expect_heartbeats_within(bootstrap: str, group: str, *, timeout_ms: int = PATIENT_MS) -> None:
    """When the group gives up a member: late where a test has to keep its members through pauses
    of the machine, soon where it would only wait for a killed one to be missed.
    """
    timeout = ConfigEntry(
        "consumer.session.timeout.ms",
        str(timeout_ms),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[timeout])
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a name: collected, it gives up
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(PATIENCE_S)
