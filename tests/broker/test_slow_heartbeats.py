"""Tasks move as soon as they can, however seldom members hear from their group."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from logstate import Application, StreamsBuilder, Topology
from logstate.app.instance.worker_pool_status import WorkerPoolStatus
from logstate.contracts.clients import NewTopic
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.broker import LocalBroker
from tests.patience import until

PARTITIONS = 4
#: longer than anybody waits
_SELDOM_MS, _SESSION_MS = "600000", "1200000"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    properties = {
        "group.consumer.heartbeat.interval.ms": _SELDOM_MS,
        "group.consumer.max.heartbeat.interval.ms": _SELDOM_MS,
        "group.consumer.session.timeout.ms": _SESSION_MS,
        "group.consumer.max.session.timeout.ms": _SESSION_MS,
    }
    with LocalBroker.start(properties=properties) as broker:
        admin = KafkaCluster(broker.bootstrap).admin()
        admin.create_topics([NewTopic("words", PARTITIONS, 1, {})])
        admin.close()
        yield broker.bootstrap


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("words", key=str, value=str).group_by_key().count(store="counts")
    return builder.build()


def instance(
    bootstrap: str, state_dir: Path, *, standbys: int = 0, workers: int = 1
) -> Application:
    return Application(
        counting(),
        application_id="words-counted",
        bootstrap=bootstrap,
        state_dir=state_dir,
        standby_replicas=standbys,
        workers=workers,
        commit_interval=timedelta(milliseconds=100),
    )


def has(application: Application, tasks: int) -> bool:
    return application.is_ready() and len(application.tasks()) == tasks


def test_tasks_come_and_go_with_an_instance_between_two_heartbeats(
    bootstrap: str, tmp_path: Path
) -> None:
    with instance(bootstrap, tmp_path / "stays", standbys=1) as stays:
        until(lambda: has(stays, PARTITIONS))
        with instance(bootstrap, tmp_path / "leaves", standbys=1) as leaves:
            until(lambda: has(leaves, PARTITIONS // 2) and has(stays, PARTITIONS // 2))
        until(lambda: has(stays, PARTITIONS))


def shares(application: Application) -> list[int]:
    """How many tasks each worker has."""
    workers = cast("WorkerPoolStatus", application._workers)
    return sorted(len(told.report.tasks) for told in workers._told.values())


def test_tasks_come_and_go_with_a_worker_of_an_instance_between_two_heartbeats(
    bootstrap: str, tmp_path: Path
) -> None:
    with instance(bootstrap, tmp_path, workers=2) as both:
        until(lambda: has(both, PARTITIONS) and shares(both) == [2, 2])
        both.add_worker()
        until(lambda: has(both, PARTITIONS) and shares(both) == [1, 1, 2])
        both.remove_worker()
        until(lambda: has(both, PARTITIONS) and shares(both) == [2, 2])
