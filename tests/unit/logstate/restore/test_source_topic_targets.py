"""A table whose source topic is its changelog: rows end where the committed offset ends.

The topic goes on behind that offset. What is there is the table's future: it enters by processing,
with outputs, and not by a replay.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from logstate.contracts.clients import Committed
from logstate.contracts.records import TaskId, TopicPartition
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

PROFILES = TopicPartition("profiles", 0)


def enriched(builder: StreamsBuilder) -> None:
    profiles = builder.table("profiles", key=str, value=str, store="profiles")
    profiles.to_stream().to("out")
    clicks = builder.stream("clicks", key=str, value=str)
    joined = clicks.left_join(profiles, lambda click, profile: f"{click}@{profile}")
    joined.to("joined", value=str)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"profiles": 1, "clicks": 1, "out": 1, "joined": 1})


def rig_of(cluster: FakeCluster, **options: Any) -> WorkerRig:
    return WorkerRig(cluster, enriched, optimization="all", **options).start()


def profile(cluster: FakeCluster, key: str, value: str) -> None:
    cluster.produce("profiles", key.encode(), value.encode(), timestamp=5)


def ran(cluster: FakeCluster, **options: Any) -> WorkerRig:
    """A worker that has committed two rows and was killed."""
    rig = rig_of(cluster, **options)
    rig.until_running()
    profile(cluster, "a", "1")
    profile(cluster, "b", "1")
    rig.commit()
    assert cluster.committed_offset("app", "profiles") == 2
    rig.kill()
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    return rig


def rows(rig: WorkerRig) -> dict[str, str]:
    return {key: row.value for key, row in rig.store("0_0", "profiles").all()}


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_a_restart_with_a_backlog_on_the_tables_topic_replays_up_to_the_committed_offset(
    cluster: FakeCluster, keeps_disk: bool
) -> None:
    disk = Disk()
    ran(cluster, disk=disk)
    for number in range(2, 40):
        profile(cluster, "a", str(number))
        profile(cluster, f"new-{number}", "x")
    rig = rig_of(cluster, name="two", disk=disk if keeps_disk else Disk())
    rig.until_running()
    assert rows(rig) == {"a": "1", "b": "1"}, "rows of the future"
    assert rig.tasks["0_0"].restored_records == (0 if keeps_disk else 2)
    assert rig.tasks["0_0"].task.state.positions == {"profiles": 2}
    rig.commit()
    assert cluster.committed_offset("app", "profiles") == 78
    assert rows(rig)["a"] == "39"
    assert [value for key, value in outputs(cluster) if key == "a"] == [
        str(number) for number in range(1, 40)
    ]


def test_a_stream_is_joined_with_the_rows_of_its_time_after_a_restart(cluster: FakeCluster) -> None:
    ran(cluster)
    cluster.produce("clicks", b"a", b"click", timestamp=6)
    cluster.produce("profiles", b"a", b"2", timestamp=7)
    rig = rig_of(cluster, name="two")
    rig.until_running()
    rig.commit()
    assert outputs(cluster, "joined") == [("a", "click@1")]


def test_rows_beyond_the_committed_offset_are_given_up_and_the_log_says_why(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The offset was set back by hand, or a replay of an older version went too far."""
    disk = Disk()
    ran(cluster, disk=disk)
    committed = cluster.group("app").offsets.committed
    committed[PROFILES] = Committed(1, "")
    rig = rig_of(cluster, name="two", disk=disk)
    with caplog.at_level(logging.WARNING):
        rig.until_running()
    assert disk.destroyed == [TaskId(0, 0)]
    assert rows(rig) == {"a": "1"}
    assert "store 'profiles' is at offset 2 of profiles-0, beyond the committed offset 1" in (
        caplog.text
    )
    rig.commit()
    assert cluster.committed_offset("app", "profiles") == 2
    assert rows(rig) == {"a": "1", "b": "1"}


def test_a_new_group_begins_with_an_empty_table(cluster: FakeCluster) -> None:
    send(cluster, "a", "b", topic="profiles")
    rig = rig_of(cluster)
    rig.until_running()
    assert rows(rig) == {}
    rig.commit()
    assert rows(rig) == {"a": "a", "b": "b"}


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_what_a_producer_rolled_back_does_not_come_back(
    cluster: FakeCluster, keeps_disk: bool
) -> None:
    disk = Disk()
    rig = rig_of(cluster, disk=disk)
    rig.until_running()
    profile(cluster, "a", "1")
    producer = cluster.transactional_producer("another")
    producer.init_transactions()
    for end in (producer.abort, producer.commit):
        producer.begin()
        name = end.__name__.encode()
        producer.produce([("profiles", 0, one, name, 5, None) for one in (name, b"a")])
        producer.flush()
        end()
    rig.commit()
    before = rows(rig)
    assert before == {"a": "commit", "commit": "commit"}
    rig.kill()
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    again = rig_of(cluster, name="two", disk=disk if keeps_disk else Disk())
    again.until_running()
    assert rows(again) == before
