"""The clients' configuration: what the engine needs, what was measured, what the user adds."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

from logstate.kafka.admin import KafkaAdmin
from logstate.kafka.background import BackgroundCalls
from logstate.kafka.consumer import KafkaGroupConsumer, KafkaLogConsumer
from logstate.kafka.producer import (
    KafkaPlainProducer,
    KafkaTransactionalProducer,
    murmur2_partition,
)

GroupProtocol = Literal["consumer", "classic"]

_LOGGER = logging.getLogger("logstate.kafka")

#: the client's default
_MAX_POLL_INTERVAL_MS = 300_000
_CALLS_BETWEEN_POLLS = 5
_CONSUMERS_APART_S = 0.2

#: what no user may change (see logstate.kafka.client_keys): the guarantees rest on it
_OWNED_CONSUMER: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # where to start is the engine's decision, never the client's
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_OWNED_PRODUCER: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",  # librdkafka's default is CRC32, Kafka's is murmur2
    "allow.auto.create.topics": False,
}
#: what was measured or reasoned; the user's settings win
_CONSUMER: Mapping[str, Any] = {
    # 0.25 M records/s with the default of 1000: the fetcher sleeps each time its queue is full
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 16_384,  # bounds memory per consumer
}
_PRODUCER: Mapping[str, Any] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "socket.timeout.ms": 10_000,
}


class KafkaCluster:
    """Makes clients for one application (see :class:`logstate.contracts.seams.Cluster`)."""

    def __init__(
        self,
        bootstrap: str,
        config: Mapping[str, Any] | None = None,
        *,
        client_id: str = "logstate",
        group_protocol: GroupProtocol = "consumer",
        transaction_timeout_ms: int = 10_000,
        tells_positions: bool = True,
    ) -> None:
        """``tells_positions``: whether transactions tell where their last records were written."""
        self._user = dict(config or {})
        self._common = {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "logger": _LOGGER,
        }
        self._group_protocol = group_protocol
        self._transaction_timeout_ms = transaction_timeout_ms
        self._tells_positions = tells_positions
        interval_ms = int(self._user.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))
        # Between two polls there may be a flush, two calls that end a transaction, and two that
        # replace its producer: together they must not cost the membership.
        self._call_limit_s = interval_ms / 1000 / _CALLS_BETWEEN_POLLS
        self._consumer_made_s = float("-inf")

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> KafkaGroupConsumer:
        # One that is thrown out at once must not be followed by another in no time, for ever.
        too_early_s = self._consumer_made_s + _CONSUMERS_APART_S - time.monotonic()
        time.sleep(max(0.0, too_early_s))
        self._consumer_made_s = time.monotonic()
        is_incremental = self._group_protocol == "consumer"
        config = self._consumer_config(group_id)
        config["group.protocol"] = self._group_protocol
        # range, because it gives partitions of the same number to the same member (co-partitioning)
        if is_incremental:
            config["group.remote.assignor"] = "range"
        else:
            config["partition.assignment.strategy"] = "range"
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        return KafkaGroupConsumer(config, is_incremental=is_incremental)

    def log_consumer(self) -> KafkaLogConsumer:
        # The client insists on a group id; nothing is ever joined or committed with it.
        return KafkaLogConsumer(self._consumer_config("logstate-log-reader"))

    def transactional_producer(self, transactional_id: str) -> KafkaTransactionalProducer:
        return KafkaTransactionalProducer(
            {
                **self._producer_config(),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": self._transaction_timeout_ms,
            },
            call_limit_s=self._call_limit_s,
            tells_positions=self._tells_positions,
        )

    def plain_producer(self) -> KafkaPlainProducer:
        return KafkaPlainProducer(self._producer_config(), call_limit_s=self._call_limit_s)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin({**self._user, **self._common}, reach_limit_s=self._call_limit_s)

    def background(self) -> BackgroundCalls:
        return BackgroundCalls()

    def partition_for(self, key: bytes, partitions: int) -> int:
        return murmur2_partition(key, partitions)

    def _consumer_config(self, group_id: str) -> dict[str, Any]:
        owned = {**_OWNED_CONSUMER, "group.id": group_id}
        return {**_CONSUMER, **self._user, **self._common, **owned}

    def _producer_config(self) -> dict[str, Any]:
        return {**_PRODUCER, **self._user, **self._common, **_OWNED_PRODUCER}
