"""One changelog with rows of several versions: for the engine, for queries and for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from tests.campaigns.upgrades import topologies as t
from tests.patience import until

INPUT_0 = TopicPartition(t.INPUT, 0)


@pytest.fixture
def mixed(tmp_path: Path) -> FakeCluster:
    """Keys a and b counted by version 1; b counted on by version 2, from an empty disk."""
    cluster = FakeCluster({t.INPUT: 1})
    for serde, keys in ((t.VERSION_1, "aab"), (t.VERSION_2, "b")):
        for key in keys:
            cluster.produce(t.INPUT, key.encode(), b"", timestamp=1)
        with started(cluster, serde, tmp_path / f"{serde.version}"):
            end = cluster.admin().end_offsets([INPUT_0])[INPUT_0]
            until(lambda end=end: committed(cluster) == end)
    return cluster


def started(cluster: FakeCluster, serde: Any, path: Path) -> Application:
    return Application(
        t.built(t.versions(serde)),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=path,
        cluster=cluster,
    )


def committed(cluster: FakeCluster) -> int | None:
    return cluster.admin().committed_so_far("app", [INPUT_0])[INPUT_0].offset


def test_the_changelog_has_both(mixed: FakeCluster) -> None:
    values = {r.key(): r.value() for r in mixed.records("app-counts-changelog")}
    assert values == {b"a": b'\x01{"count":2}', b"b": b'\x02{"counts":[2,1]}'}


def test_a_restore_and_a_query_read_both(mixed: FakeCluster, tmp_path: Path) -> None:
    with started(mixed, t.VERSION_2, tmp_path / "new") as app:
        store = app.store("counts")
        until(lambda: app.tasks() == {"0_0": "running"})
        assert {key: row.value.counts for key, row in store.all()} == {"a": (2, 0), "b": (2, 1)}
