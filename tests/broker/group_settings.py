"""Settings of one consumer group."""

from __future__ import annotations

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def expect_heartbeats_within(bootstrap: str, group: str, *, timeout_ms: int) -> None:
    """Let the group give up a killed member soon; most of a test would be waiting for that."""
    timeout = ConfigEntry(
        "consumer.session.timeout.ms",
        str(timeout_ms),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[timeout])
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a name: collected, it gives up
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)
