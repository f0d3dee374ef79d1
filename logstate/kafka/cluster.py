"""The clients' configuration: settings that the engine needs, measured values, user settings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from logstate.contracts.clients import ClientErrors
from logstate.contracts.worker_config import MAX_POLL_INTERVAL_MS
from logstate.kafka.admin import KafkaAdmin
from logstate.kafka.client_config import weaknesses
from logstate.kafka.client_lines import ClientLines
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.fetching import with_fetch_bounds
from logstate.kafka.group_consumer import KafkaGroupConsumer
from logstate.kafka.log_consumer import KafkaLogConsumer
from logstate.kafka.partition_counts import murmur2_partition
from logstate.kafka.producer import KafkaPlainProducer, KafkaTransactionalProducer

#: every cluster with transactions has it; a principal that may not see it gets a response too
_ANY_TOPIC = "__transaction_state"


class KafkaProbe:
    """The probe of :class:`logstate.contracts.clients.Probe`."""

    def __init__(self, config: Mapping[str, Any], lines: ClientLines) -> None:
        self.brokers = str(config["bootstrap.servers"])
        self._lines = lines
        lines.is_watched = True
        self._client = AdminClient({**config, "error_cb": lines.failed})

    def ask(self, timeout_s: float) -> bool:
        try:
            self._client.list_topics(_ANY_TOPIC, timeout=timeout_s)
        except KafkaException:
            return False
        return True

    def client_errors(self) -> ClientErrors:
        self._client.poll(0)
        return self._lines.take()

    def fold(self, *, is_away: bool) -> None:
        self._lines.is_away = is_away

    def close(self) -> None:
        """End the counting: from now on the clients' lines are logged again."""
        self._lines.is_watched = self._lines.is_away = False


class BackgroundCalls:
    """A thread for calls, see `logstate.contracts.clients.Background`. Every call returns."""

    processes_between_steps = True

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="commit")

    def start(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        return self._executor.submit(call, *arguments)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


GroupProtocol = Literal["consumer", "classic"]

_LOGGER = logging.getLogger("logstate.kafka")

_CALLS_BETWEEN_POLLS = 5
_CONSUMERS_APART_S = 0.2

#: settings that no user may change (see logstate.kafka.client_keys): the guarantees need them
_OWNED_CONSUMER: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # the engine decides where to start, never the client
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_OWNED_PRODUCER: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",  # librdkafka's default is CRC32, Kafka's is murmur2
    "allow.auto.create.topics": False,
}
#: measured or reasoned values; the user's settings override them
_CONSUMER: Mapping[str, Any] = {
    # 0.25 M records/s with the default of 1000: the fetcher sleeps each time its queue is full
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 100,
}
_PRODUCER: Mapping[str, Any] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "socket.timeout.ms": 10_000,
}

#: the client validates these together although this consumer is not a member of a group
_OF_MEMBERS = frozenset({"max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms"})


class KafkaCluster:
    """Creates clients for one application (see :class:`logstate.contracts.clients.Cluster`)."""

    def __init__(
        self,
        bootstrap: str,
        config: Mapping[str, Any] | ClientSettings | None = None,
        *,
        client_id: str = "logstate",
        group_protocol: GroupProtocol = "consumer",
        transaction_timeout_ms: int = 10_000,
        reports_positions: bool = True,
        reader_group: str = "logstate-log-reader",
    ) -> None:
        """``reports_positions``: whether transactions return where their last records were written.

        ``reader_group``: a group that this client may look up; readers of logs never join it.
        """
        given = config if isinstance(config, ClientSettings) else ClientSettings(config or {})
        self._user = given
        logger = given.common.get("logger", _LOGGER)
        for weakness in weaknesses(given.all()):
            logger.warning("%s", weakness)
        self._lines = ClientLines(logger)
        self._common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "logger": self._lines,
        }
        self._group_protocol = group_protocol
        self._transaction_timeout_ms = transaction_timeout_ms
        self._reports_positions = reports_positions
        self._reader_group = reader_group
        interval_ms = given.max_poll_interval_ms(MAX_POLL_INTERVAL_MS)
        # Between two polls there may be a flush, two calls that end a transaction, and two that
        # replace its producer: all of them together must finish before the group removes the
        # member.
        self._call_limit_s = interval_ms / 1000 / _CALLS_BETWEEN_POLLS
        self._consumer_made_s = float("-inf")

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> KafkaGroupConsumer:
        # A consumer that the group removes at once must not be replaced in an endless fast loop.
        too_early_s = self._consumer_made_s + _CONSUMERS_APART_S - time.monotonic()
        time.sleep(max(0.0, too_early_s))
        self._consumer_made_s = time.monotonic()
        is_incremental = self._group_protocol == "consumer"
        config = self._consumer_config(group_id)
        config["group.protocol"] = self._group_protocol
        # range assigns partitions of the same number to the same member (co-partitioning)
        if is_incremental:
            config["group.remote.assignor"] = "range"
        else:
            config["partition.assignment.strategy"] = "range"
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        return KafkaGroupConsumer(config, is_incremental=is_incremental)

    def log_consumer(self, *, queue_bytes: int | None = None) -> KafkaLogConsumer:
        # The client requires a group id, and looks up its coordinator; it never joins the group or
        # commits.
        config = self._consumer_config(self._reader_group)
        for setting in _OF_MEMBERS & config.keys():
            del config[setting]
        if queue_bytes is not None:
            config["queued.max.messages.kbytes"] = max(1, queue_bytes // 1024)
            config["fetch.message.max.bytes"] = queue_bytes
            # The client refuses less than its largest message; a larger record still arrives.
            config["fetch.max.bytes"] = max(queue_bytes, int(config.get("message.max.bytes", 0)))
        return KafkaLogConsumer(config)

    def transactional_producer(self, transactional_id: str) -> KafkaTransactionalProducer:
        return KafkaTransactionalProducer(
            {
                **self._producer_config(),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": self._transaction_timeout_ms,
            },
            call_limit_s=self._call_limit_s,
            reports_positions=self._reports_positions,
        )

    def plain_producer(self) -> KafkaPlainProducer:
        return KafkaPlainProducer(self._producer_config(), call_limit_s=self._call_limit_s)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(
            {**self._user.of_admin(), **self._common}, reach_limit_s=self._call_limit_s
        )

    def background(self) -> BackgroundCalls:
        return BackgroundCalls()

    def probe(self) -> KafkaProbe:
        return KafkaProbe({**self._user.of_admin(), **self._common}, self._lines)

    partition_for = staticmethod(murmur2_partition)

    def _consumer_config(self, group_id: str) -> dict[str, Any]:
        owned = {**_OWNED_CONSUMER, "group.id": group_id}
        given = with_fetch_bounds(self._user.of_consumers())
        return {**_CONSUMER, **given, **self._common, **owned}

    def _producer_config(self) -> dict[str, Any]:
        return {**_PRODUCER, **self._user.of_producers(), **self._common, **_OWNED_PRODUCER}
