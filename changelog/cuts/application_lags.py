"""List the applications of a cluster and their lag, from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from logstate.changelog.cuts.logs import log_reader, read_manifest
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import application_of_cuts_topic


class InputLag(NamedTuple):
    """One partition that an application reads."""

    topic: str
    partition: int
    committed: int | None
    """The next offset it reads; None if nothing was committed yet."""
    end: int
    lag: int
    """Offsets from there, or from the log's start, to its end, including transaction markers."""


def applications(config: Mapping[str, Any]) -> list[str]:
    """Ids of the applications that have started on this cluster. Raises BrokerError."""
    log_reader()  # reports a missing client library
    from logstate.kafka.cluster import KafkaCluster

    given = dict(config)
    admin = KafkaCluster(str(given.pop("bootstrap.servers")), given).admin()
    try:
        names = map(application_of_cuts_topic, admin.topic_names())
        return sorted(name for name in names if name is not None and _has_started(config, name))
    finally:
        admin.close()


def lags(
    config: Mapping[str, Any], application: str, manifest: Mapping[str, Any]
) -> list[InputLag]:
    """Every partition of its inputs and repartition topics. Raises TopicError if one is gone."""
    from logstate.kafka.group_offsets import committed_offsets

    names = sorted({*manifest.get("inputs", ()), *manifest.get("topics", {})})
    topics = log_reader().log_topics(config, names) if names else {}
    logs = [TopicPartition(name, n) for name in names for n in range(topics[name].partitions)]
    committed = committed_offsets(config, application, logs)
    found = []
    for log, bounds in log_reader().log_bounds(config, logs).items():
        offset = committed[log].offset if log in committed else None
        position = bounds.start if offset is None else offset
        behind = max(0, bounds.end - position)
        found.append(InputLag(log.topic, log.partition, offset, bounds.end, behind))
    return found


def _has_started(config: Mapping[str, Any], application: str) -> bool:
    try:
        read_manifest(config, application)
    except LogstateError:  # another program's topic of such a name
        return False
    return True
