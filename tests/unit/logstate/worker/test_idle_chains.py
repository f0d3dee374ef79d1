"""Windows that close on idle behind others that do: what the cuts of the tasks above say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.changelog.cut import decode_cut
from logstate.contracts.clients import Step
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, TumblingWindows
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

IDLE_MS = 500
#: for two requests: 4 a second
ASKED_MS = 600


class Killed(BaseException):
    """SIGKILL."""


def windows(size_ms: int) -> TumblingWindows:
    return TumblingWindows(
        size=timedelta(milliseconds=size_ms), close_on_idle=timedelta(milliseconds=IDLE_MS)
    )


def finals(stream: Any, closing: TumblingWindows, store: str) -> Any:
    groups = stream.group_by_key().windowed_by(closing)
    counts = groups.count(store=store, name=store, emit="close")
    return counts.to_stream(lambda w, _: w.key, key=str).map_values(str, value=str)


def chain(*sizes_ms: int) -> Callable[[StreamsBuilder], None]:
    """Windows of these sizes, each of the results of the one before."""

    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        for number, size_ms in enumerate(sizes_ms):
            stream = finals(stream, windows(size_ms), f"n{number}").repartition(name=f"r{number}")
        stream.to("out")

    return declare


def running(
    declare: Callable[[StreamsBuilder], None],
    cluster: FakeCluster | None = None,
    **options: Any,
) -> WorkerRig:
    return WorkerRig(cluster or cluster_of(), declare, **options).start().until_running()


def idle(rig: WorkerRig, for_ms: int) -> None:
    for _ in range(for_ms // 100):
        rig.clock.advance(100)
        rig.turn(4)


def open_clocks(rig: WorkerRig) -> list[int | None]:
    """What the cuts of the first tasks say, by partition."""
    partitions = [TopicPartition("in", number) for number in range(2)]
    found = rig.cluster.admin().committed_so_far(rig.config.application_id, partitions)
    committed = [found[tp] for tp in partitions]
    cuts = [decode_cut(one.metadata, committed_offset=one.offset or 0).cut for one in committed]
    return [None if cut is None else cut.clocks.get("open:n0") for cut in cuts]


def test_each_closes_when_nothing_is_open_above() -> None:
    rig = running(chain(10, 10, 10))
    send(rig.cluster, *"abcdef")
    rig.turn(10)
    idle(rig, 3 * (IDLE_MS + ASKED_MS + 2 * rig.config.commit_interval_ms))
    assert sorted(outputs(rig.cluster)) == [(key, "1") for key in "abcdef"]


def test_a_cut_says_whether_something_is_open() -> None:
    rig = running(chain(2_000, 10))
    idle(rig, 300)
    assert open_clocks(rig) == [0, 0]
    send(rig.cluster, "a", partition=1)
    rig.turn(10)
    idle(rig, 300)
    assert open_clocks(rig) == [0, 1]
    idle(rig, 3_000)
    assert open_clocks(rig) == [0, 0]


def test_an_open_window_of_another_task_above_keeps_windows_open() -> None:
    rig = running(chain(5_000, 10))
    send(rig.cluster, *"abc")
    rig.turn(10)
    idle(rig, 5_300)
    assert outputs(rig.cluster) == []
    idle(rig, IDLE_MS + ASKED_MS + 2 * rig.config.commit_interval_ms)
    assert sorted(outputs(rig.cluster)) == [("a", "1"), ("b", "1"), ("c", "1")]


def test_after_an_upgrade_the_first_commit_says_what_is_open() -> None:
    def plain(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        first = finals(stream, windows(10), "n0").repartition(name="r0")
        counts = first.group_by_key().windowed_by(TumblingWindows(size=timedelta(milliseconds=10)))
        counts = counts.count(store="n1", name="n1", emit="close")
        counts.to_stream(lambda w, _: w.key, key=str).map_values(str, value=str).repartition(
            name="r1"
        ).to("out")

    cluster = cluster_of()
    before = running(plain, cluster)
    send(cluster, "a")
    before.turn(10)
    idle(before, 3_000)
    assert open_clocks(before) == [None, None]
    assert outputs(cluster) == []
    before.stop()
    after = running(chain(10, 10), cluster, disk=before.disk, name="two")
    idle(after, 3_000)
    assert outputs(cluster) == [("a", "1")]


@pytest.mark.parametrize("step", ["produce", "send_offsets", "commit"])
@pytest.mark.parametrize("tick", [1, 2])
def test_a_chain_that_is_killed_in_a_tick_sends_each_result_once(step: str, tick: int) -> None:
    cluster = cluster_of()
    rig = running(chain(10, 10), cluster)
    send(cluster, "a")
    rig.commit()
    idle(rig, 400)
    asked = 0

    def dies(at: Step) -> None:
        nonlocal asked
        asked += at.name == "commit"
        if asked >= tick - (at.name == "commit") and at.name == step:
            raise Killed

    rig.before = dies
    with pytest.raises(Killed):
        idle(rig, 10_000)
    rig.process.kill()
    cluster.clock.advance(60_000)  # type: ignore[attr-defined]
    cluster.tick()
    after = running(chain(10, 10), cluster, name="two", disk=rig.disk)
    idle(after, 4_000)
    assert outputs(cluster) == [("a", "1")]
