"""Two or more instances of one application in this process, over one cluster in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate.app.application import Application
from logstate.contracts.partitioner import partition_of
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, Topology, TumblingWindows
from tests import patience
from tests.unhurried import unhurried

PARTITIONS = 4
KEYS = [f"k{i}" for i in range(20)]


def counting() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts")
    windows = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(0))
    grouped.windowed_by(windows).count(store="per-10s")
    builder.global_table("names", key=str, value=str, store="names")
    return builder.build()


def cluster_with(counts: dict[str, int] | None = None) -> FakeCluster:
    """``k3`` was seen 4 times, and so on."""
    cluster = unhurried({"in": PARTITIONS, "names": 1})
    for key, count in (counts or {key: i + 1 for i, key in enumerate(KEYS)}).items():
        for _ in range(count):
            send(cluster, key)
    cluster.produce("names", b"k1", b"Ada", timestamp=1)
    return cluster


def send(cluster: FakeCluster, key: str, timestamp: int = 1) -> None:
    partition = partition_of(key.encode(), PARTITIONS)
    cluster.produce("in", key.encode(), b"x", partition=partition, timestamp=timestamp)


def instance(cluster: FakeCluster, state_dir: Path, **settings: Any) -> Application:
    return Application(
        counting(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        **settings,
    )


def until(app: Application, is_so: Callable[[], bool]) -> None:
    """Wait for what the directory tells; where it never does, the failure says what it has."""
    presence = app._presence
    assert presence is not None
    patience.until(is_so, lambda: f"{presence.link.trouble}; {app.all_instances()}")


def shared(app: Application, instances: int) -> Callable[[], bool]:
    """Whether all partitions can be read, from so many instances that each have some."""

    def is_so() -> bool:
        owners = [m for m in app.all_instances() if "counts" in m.state_stores]
        tasks = [t for m in owners for t, told in m.tasks.items() if told.is_readable]
        return len(owners) == instances and len(set(tasks)) == len(tasks) == PARTITIONS

    return is_so


def caught_up(app: Application, cluster: FakeCluster) -> None:
    """Wait until every record that was sent is in the answers, whoever gives them."""
    sent = Counter(record.partition() for record in cluster.records("in"))
    ends = {f"in-{partition}": count for partition, count in sent.items()}
    store = app.remote_store(
        "counts", at_least=ends, timeout=timedelta(seconds=patience.PATIENCE_S)
    )
    for key in KEYS:
        store.get(key)
