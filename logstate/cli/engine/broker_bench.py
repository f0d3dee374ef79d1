"""Run a topology as a whole application on brokers, from its first record to its last."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from logstate.app.application import Application
from logstate.app.instance.states import ApplicationState
from logstate.contracts.clients import Admin, NewTopic
from logstate.contracts.errors import ConfigError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from logstate.metrics.catalogue import (
    CHANGELOG_RECORDS,
    DROPPED_RECORDS,
    RECORDS_CONSUMED,
    RECORDS_PRODUCED,
)
from logstate.testing.benched_alone import Benched
from logstate.topics.bound_plan import external_topics
from logstate.topology.plan.plan import Topology

_LOOK_S = 0.02
#: the end after this long without records: records of repartition topics follow commits of 0.1 s
_QUIET_S = 2.0
_BATCH = 5_000


class BenchTarget(NamedTuple):
    """Where and how the application runs."""

    bootstrap: str
    settings: Mapping[str, Any]
    state_dir: Path
    partitions: int
    workers: int
    #: additional topics: of sinks that choose the topic by record
    topics: tuple[str, ...]


def bench_on_brokers(
    target: Topology | str,
    topology: Topology,
    application_id: str,
    place: BenchTarget,
    records: Iterable[ProducedRecord],
) -> Benched:
    """Create its topics, fill them, run the application until all is processed, remove everything.

    Raises ConfigError if one of its topics exists: existing topics are neither changed nor deleted.
    """
    cluster = KafkaCluster(place.bootstrap, place.settings)
    admin = cluster.admin()
    written = (ref for sub in topology.sub_topologies for ref in sub.sink_topics)
    outputs = [ref.name for ref in written if not ref.is_internal]
    names = sorted({*external_topics(topology), *outputs, *place.topics})
    there = sorted(admin.describe_topics(names))
    if there:
        admin.close()
        raise ConfigError(
            f"topic {there[0]!r} exists at {place.bootstrap}. A bench creates the topics of the"
            " topology, fills them with generated records, and deletes them: use brokers that do"
            " not have them, or --broker, which starts one for the bench"
        )
    try:
        admin.create_topics([NewTopic(name, place.partitions, -1, {}) for name in names])
        count = _fill_topics(cluster, records, place.partitions)
        return _run(target, application_id, place, count)
    finally:
        _remove(admin, names, application_id)


def _fill_topics(cluster: KafkaCluster, records: Iterable[ProducedRecord], partitions: int) -> int:
    producer, count = cluster.plain_producer(), 0
    batch: list[ProducedRecord] = []
    for count, one in enumerate(records, 1):
        place = count % partitions if one.key is None else partition_of(one.key, partitions)
        batch.append(one._replace(partition=place))
        if len(batch) == _BATCH:
            producer.produce(batch)
            batch = []
    producer.produce(batch)
    producer.flush()
    producer.close()
    return count


def _run(target: Topology | str, application_id: str, place: BenchTarget, count: int) -> Benched:
    application = Application(
        target,
        application_id=application_id,
        bootstrap=place.bootstrap,
        state_dir=place.state_dir,
        kafka=place.settings,
        workers=place.workers,
    )
    with application:
        begun, ended = _wait_until_processed(application)
        metrics, snapshot = application.metrics_registry, application.metrics()
        outputs: Counter[str] = Counter()
        for one in snapshot.get(RECORDS_PRODUCED.name, {}).get("series", ()):
            outputs[one["labels"]["topic"]] += int(one["value"])
        changes = int(metrics.total(CHANGELOG_RECORDS.name))
        dropped = int(metrics.total(DROPPED_RECORDS.name))
    return Benched(count, ended - begun, outputs, changes, dropped)


def _wait_until_processed(application: Application) -> tuple[float, float]:
    """Return when processing could begin, and when the last record was processed.

    Metrics are updated a few times a second, so the first value may include all records: time
    counts from the last check that found the application not running yet.
    """
    begun = ended = time.monotonic()
    has_begun, processed = False, 0.0
    while application.is_alive:
        now = time.monotonic()
        seen = application.metrics_registry.total(RECORDS_CONSUMED.name)
        has_begun = has_begun or seen > 0 or application.state is ApplicationState.RUNNING
        begun = begun if has_begun else now
        if seen != processed:
            processed, ended = seen, now
        elif processed and now - ended > _QUIET_S and _has_nothing_left(application):
            break
        time.sleep(_LOOK_S)
    return begun, ended


def _has_nothing_left(application: Application) -> bool:
    lags = application.lags().values()
    return bool(lags) and not any(one.input_records or one.restore_records for one in lags)


def _remove(admin: Admin, names: list[str], application_id: str) -> None:
    own = admin.describe_topics([], f"{application_id}-")
    admin.delete_topics([*names, *own])
    admin.close()
