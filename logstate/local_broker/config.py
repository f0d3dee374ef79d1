"""The settings of a local single-node broker: a full KRaft broker, tuned for tests.

Every setting here is either forced by there being one node, or shortens a wait that a test would
otherwise sit through. None of them relaxes what the broker promises to its clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from logstate.local_broker.ports import LOOPBACK

ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

SHORT_WAITS = {
    # Few coordinator partitions: 50 of each (the default) cost seconds at the first commit.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # A killed member is missed after seconds; the defaults allow 45 s at the least.
    "group.initial.rebalance.delay.ms": "0",
    # A group of the new protocol is assigned again at most once a second by default: of two members
    # that join together the second would have no partitions for so long.
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    # After a crash the node registers again only when its old session has run out (9 s by default).
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    # A transaction that timed out is aborted within a second of it, not of ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Compaction and deletion can be watched inside a test.
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}

FOR_TESTS = {
    # Topics are created on purpose, by name and partition count, or a typing error becomes one.
    "auto.create.topics.enable": "false",
    "num.partitions": "4",
    # Test data has old event times; time retention would delete it immediately.
    "log.retention.ms": "-1",
    # The default, 128 MiB, is a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": "33554432",
    "num.network.threads": "2",
    "num.io.threads": "4",
}

#: A broker that is suspended for a while is not fenced: no other broker could lead, and it would
#: lose transaction markers. After a kill it does not wait for its old session, because it is fenced
#: before it starts (:mod:`logstate.local_broker.fencing`), except in containers. So no process
#: waits for its heartbeats, and the metadata log does not have to grow while idle: an idle broker
#: then takes half as much of a core.
ALONE = {
    "broker.session.timeout.ms": "600000",
    "broker.heartbeat.interval.ms": "2000",
    "metadata.max.idle.interval.ms": "5000",
}

#: three nodes of which any one may die: as a cluster in production is set up
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # A dead controller is missed as soon as a dead broker is.
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}

_LOG4J = """\
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
logger.startup.name=kafka.server.KafkaRaftServer
logger.startup.level=info
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={directory}/{name}.log
appender.file.filePattern={directory}/{name}-%i.log
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c{{1}} %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=20MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
"""


#: a node that is a controller only, for as long as it takes to fence the broker that it was
CONTROLLER_ONLY = {
    **ONE_NODE,
    "process.roles": "controller",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "500",
    # How often an empty record is written: the longest wait for a written metadata record.
    "metadata.max.idle.interval.ms": "100",
}


#: settings whose values are lists that another listener is added to
_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def server_properties(
    *,
    port: int,
    controller_port: int,
    log_directory: Path,
    overrides: Mapping[str, str],
    another: Mapping[str, str] | None = None,
) -> str:
    """The text of ``server.properties``; ``overrides`` win over every default.

    ``another`` are the settings of one more listener.
    """
    addresses = {
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{controller_port}",
        "log.dirs": str(log_directory),
    }
    settings = {**ONE_NODE, **SHORT_WAITS, **FOR_TESTS, **addresses, **overrides}
    if another:
        more = {**another, "advertised.listeners": another["listeners"]}
        added = {name: f"{settings[name]},{more[name]}" for name in _LISTS}
        settings = {**settings, **more, **added}
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def controller_properties(*, controller_port: int, log_directory: Path) -> str:
    """The text of the settings of the node while it is a controller only."""
    address = f"{LOOPBACK}:{controller_port}"
    settings = {
        **CONTROLLER_ONLY,
        "listeners": f"CONTROLLER://{address}",
        "controller.quorum.bootstrap.servers": address,
        "log.dirs": str(log_directory),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def controller_log4j_properties(directory: Path) -> str:
    """A log4j configuration that writes what the controller does to ``controller.log``."""
    text = _LOG4J.format(directory=directory, name="controller")
    return text + (
        "logger.controller.name=org.apache.kafka.controller\nlogger.controller.level=info\n"
    )


def log4j_properties(directory: Path) -> str:
    """A log4j configuration that writes warnings to ``broker.log`` in ``directory``."""
    return _LOG4J.format(directory=directory, name="broker")
