"""Where offsets and state do not fit, the advice keeps the state, and says what does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topology.dsl.builder import StreamsBuilder
from tests.patience import until

IN = TopicPartition("in", 0)


def send(cluster: FakeCluster, count: int) -> None:
    for _ in range(count):
        cluster.produce("in", b"k", b"v", timestamp=1)


def counted(cluster: FakeCluster, state_dir: Path, expected: int) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="n")
    with Application(
        builder.build(), application_id="app", bootstrap="f:1", state_dir=state_dir, cluster=cluster
    ) as app:
        app.wait_until_running()
        until(lambda: [row.value for _, row in app.store("n").all()] == [expected])


def overtaken(cluster: FakeCluster) -> None:
    send(cluster, 5)
    cluster.admin().delete_records({IN: 8})


def recreated(cluster: FakeCluster) -> None:
    cluster.admin().delete_topics(["in"])
    cluster.create_topic("in", 1)
    send(cluster, 5)


@pytest.mark.parametrize("disk", ["kept", "lost"])
@pytest.mark.parametrize(
    ("happens", "advised", "count"), [(overtaken, "8", 7), (recreated, "N", 10)]
)
def test_the_offset_that_is_advised_keeps_the_state(
    tmp_path: Path, happens: Callable[[FakeCluster], None], advised: str, count: int, disk: str
) -> None:
    cluster = FakeCluster({"in": 1})
    send(cluster, 5)
    counted(cluster, tmp_path, 5)
    happens(cluster)
    with pytest.raises(RestoreError) as refused:
        counted(cluster, tmp_path, 5)
    message = str(refused.value)
    found = re.search(r"--topic in:0 --to-offset (\w+) --execute", message)
    assert found is not None
    assert found[1] == advised
    assert "`logstate reset`, which deletes the state" in message
    right = cluster.admin().start_offsets([IN])[IN]
    assert advised in (str(right), "N")
    cluster.admin().commit_without_members("app", {IN: right})
    counted(cluster, tmp_path if disk == "kept" else tmp_path / "other", count)
