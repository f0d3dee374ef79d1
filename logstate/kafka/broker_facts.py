"""Facts about brokers for diagnosis: their addresses, release, permissions and settings.

A broker does not report its version to clients, only which requests it supports in which versions.
The client library shows these only in its log, so they are read there; this works through TLS and
SASL like everything else.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TopicPartition
from logstate.kafka.admin import KafkaAdmin
from logstate.kafka.client_config import admin_client
from logstate.kafka.faults import native_error

_REQUEST_S = 5.0
_API = re.compile(r"/(?P<broker>\d+): +ApiKey \S+ \((?P<key>\d+)\) Versions (\d+)\.\.(?P<last>\d+)")
#: requests that identify a release: key, its version, and the first release that has it
_RELEASES = ((88, 0, "4.1"), (68, 1, "4.0"), (75, 0, "3.8"), (68, 0, "3.7"), (60, 1, "3.6"))

#: requests by their keys
END_TRANSACTION, CONSUMER_GROUP_HEARTBEAT = 26, 68


class BrokerFacts(NamedTuple):
    """Facts about a cluster."""

    cluster_id: str
    #: ``host:port`` of each broker
    brokers: tuple[str, ...]
    #: key of a request -> newest version that all responding brokers support
    apis: Mapping[int, int]
    #: operations on the cluster that this client may do; None if the brokers do not report them
    operations: frozenset[str] | None
    #: settings of one broker; empty if this client may not read them
    settings: Mapping[str, str]

    @property
    def release(self) -> str:
        """The oldest release of Kafka that supports the requests of these brokers."""
        for key, version, release in _RELEASES:
            if self.apis.get(key, -1) >= version:
                return f"{release} or newer"
        return "older than 3.6" if self.apis else "not known"


class _Lines(logging.Handler):
    """Keeps the log lines of a client."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def broker_facts(config: Mapping[str, Any]) -> BrokerFacts:
    """Query the brokers. Raise BrokerError, with the client's last reason, if none responds."""
    heard = _Lines()
    logger = logging.Logger("client")  # noqa: LOG001  separate: these lines are not logged
    logger.addHandler(heard)
    reasons: list[str] = []
    admin = admin_client(
        config,
        debug="feature",
        logger=logger,
        error_cb=lambda error: reasons.append(error.str()),
    )
    try:
        # The client's stubs declare several possible results.
        asked: Any = admin.describe_cluster(
            include_authorized_operations=True, request_timeout=_REQUEST_S
        )
        cluster = asked.result(2 * _REQUEST_S)
    except (confluent_kafka.KafkaException, TimeoutError) as exception:
        admin.poll(0)
        if isinstance(exception, confluent_kafka.KafkaException):
            reasons.append(native_error(exception).str())
        why = next(iter(reasons), "no answer")
        raise BrokerError(
            f"no broker answers at {config.get('bootstrap.servers')} ({why})"
        ) from exception
    settings = _settings(admin, cluster.nodes[0].id) if cluster.nodes else {}
    admin.poll(0)
    operations = cluster.authorized_operations
    return BrokerFacts(
        str(cluster.cluster_id),
        tuple(sorted(f"{node.host}:{node.port}" for node in cluster.nodes)),
        apis_of(heard.lines),
        None if not operations else frozenset(one.name for one in operations),
        settings,
    )


def apis_of(lines: list[str]) -> dict[int, int]:
    """Return the newest version of each request that all brokers in the log support.

    >>> apis_of(["x: host:9092/1:   ApiKey EndTxn (26) Versions 0..5"])
    {26: 5}
    """
    versions: dict[str, dict[int, int]] = {}
    for line in lines:
        found = _API.search(line)
        if found is not None:
            versions.setdefault(found["broker"], {})[int(found["key"])] = int(found["last"])
    brokers = list(versions.values())
    shared = set(brokers[0]).intersection(*brokers[1:]) if brokers else set()
    return {key: min(one[key] for one in brokers) for key in shared}


def _settings(admin: Any, broker: int) -> dict[str, str]:
    kind = confluent_kafka.admin.ResourceType.BROKER
    resource = confluent_kafka.admin.ConfigResource(kind, str(broker))
    (asked,) = admin.describe_configs([resource], request_timeout=_REQUEST_S).values()
    try:
        return {name: one.value for name, one in asked.result(2 * _REQUEST_S).items()}
    except (confluent_kafka.KafkaException, TimeoutError):  # it needs a permission
        return {}


class ClockSkew(NamedTuple):
    """How far this machine's clock is ahead of a broker's, and the uncertainty."""

    ahead_ms: float
    within_ms: float


def clock_skew(config: Mapping[str, Any]) -> ClockSkew:
    """Compare clocks by a record in a topic that is created for this, and deleted again.

    No request returns a broker's time, but a broker can timestamp a record. Raises BrokerError if
    the topic cannot be created or written.
    """
    admin = KafkaAdmin(config)
    topic = f"logstate-doctor-{uuid.uuid4().hex[:12]}"
    native = admin_client(config)
    dated = {"message.timestamp.type": "LogAppendTime"}
    made = confluent_kafka.admin.NewTopic(topic, 1, -1, config=dated)
    try:
        native.create_topics([made])[topic].result(2 * _REQUEST_S)
        return _clock_skew(config, admin, topic)
    except confluent_kafka.KafkaException as exception:
        raise BrokerError(f"topic {topic!r}: {native_error(exception).str()}") from exception
    finally:
        for future in native.delete_topics([topic]).values():
            future.exception(2 * _REQUEST_S)
        admin.close()


def _clock_skew(config: Mapping[str, Any], admin: KafkaAdmin, topic: str) -> ClockSkew:
    admin.end_offsets([TopicPartition(topic, 0)])  # waits for its leader
    producer = confluent_kafka.Producer({**config, "linger.ms": 0})
    dated: list[ClockSkew] = []
    # The first one connects; of the others the fastest is the most exact.
    for _ in range(4):
        reports: list[Any] = []
        before = time.time() * 1000
        producer.produce(topic, b"", partition=0, on_delivery=_appending(reports))
        producer.flush(2 * _REQUEST_S)
        after = time.time() * 1000
        if not reports:
            raise BrokerError(f"no record could be written to {topic!r}: no answer")
        error, message = reports[0]
        if error is not None:
            raise BrokerError(f"no record could be written to {topic!r}: {error}")
        at_ms = message.timestamp()[1]
        dated.append(ClockSkew((before + after) / 2 - at_ms, (after - before) / 2))
    return min(dated, key=lambda one: one.within_ms)


def _appending(reports: list[Any]) -> Callable[[Any, Any], None]:
    return lambda error, message: reports.append((error, message))
