"""Tasks with very many stores keep their clocks; so do tasks that change hands with the JVM."""

from __future__ import annotations

import base64
from datetime import timedelta

from logstate.changelog.cut import METADATA_BYTES_MAX, Cut, decode_cut, encode_cut
from logstate.contracts.clients import Committed
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from logstate.topology.declaring.windows import TumblingWindows
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs

IN = TopicPartition("in", 0)
STORES = 200
TEN_MS = timedelta(milliseconds=10)


def windowed(builder: StreamsBuilder, store: str) -> None:
    windows = TumblingWindows(size=TEN_MS)
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    counts = grouped.count(store=store, emit="close").to_stream()
    counts.map(lambda key, n: (key.key, f"{store}:{n}"), key=str, value=str).to("out")


def many(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    windows = TumblingWindows(size=TEN_MS)
    for number in range(STORES):
        grouped.windowed_by(windows).count(store=f"counts-of-kind-{number}")


def one(builder: StreamsBuilder) -> None:
    windowed(builder, "final")


def put(cluster: FakeCluster, *times: int) -> None:
    for time in times:
        cluster.produce("in", b"k", b"v", timestamp=time, partition=0)


def clocks(rig: WorkerRig) -> dict[str, int]:
    return {name: cell.time for name, cell in rig.tasks["0_0"].task.state.cells.items()}


def metadata(cluster: FakeCluster) -> Committed:
    return cluster.group("app").offsets.committed[IN]


def test_two_hundred_stores_of_one_task_keep_their_clocks_over_a_move() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, many).start().until_running()
    put(cluster, 5, 17, 42)
    rig.commit()
    committed = metadata(cluster)
    assert len(committed.metadata) <= METADATA_BYTES_MAX
    before = clocks(rig)
    assert sum(time == 42 for time in before.values()) >= STORES
    rig.stop()
    rig = WorkerRig(cluster, many, name="two", disk=Disk()).start().until_running()
    assert clocks(rig) == before
    assert rig.tasks["0_0"].task.stream_time == 42


# --- to and from Kafka Streams --------------------------------------------------------------------


def test_how_far_results_were_emitted_is_told_to_kafka_streams_under_the_stores_name() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, one).start().until_running()
    put(cluster, 5)
    rig.commit()
    rig.clock.advance(1_000)  # what has closed is looked for once a second
    put(cluster, 12)
    rig.commit()
    assert outputs(cluster) == [("k", "final:1")]
    committed = metadata(cluster)
    assert committed.offset is not None
    told = decode_cut(committed.metadata, committed_offset=committed.offset)
    assert (told.partition_time_ms, told.processor_times) == (12, {"final": 12})


def test_what_kafka_streams_has_emitted_is_not_emitted_again() -> None:
    """It commits without our block; stream time and emission times are taken from its own."""
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, one).start().until_running()
    put(cluster, 5)
    rig.commit()
    rig.clock.advance(1_000)  # what has closed is looked for once a second
    put(cluster, 12)
    rig.commit()
    rig.stop()
    committed = metadata(cluster)
    streams = encode_cut_of_streams(12, {"final": 12})
    cluster.group("app").offsets.committed[IN] = Committed(committed.offset, streams)
    rig = WorkerRig(cluster, one, name="two", disk=Disk()).start().until_running()
    assert rig.tasks["0_0"].task.stream_time == 12
    put(cluster, 13)
    rig.commit()
    rig.clock.advance(1_000)
    put(cluster, 21)
    rig.commit()
    assert outputs(cluster) == [("k", "final:1"), ("k", "final:2")]


def test_a_renamed_store_has_its_changelogs_name_with_kafka_streams_there_and_back() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    first = WorkerRig(cluster, one).start().until_running()
    put(cluster, 5)
    first.commit()
    first.stop()
    renamed = MigrationOptions(renamed={"final": "ours"})
    rig = WorkerRig(cluster, lambda builder: windowed(builder, "ours"), decisions=renamed)
    rig.start().until_running()
    rig.clock.advance(1_000)  # what has closed is looked for once a second
    put(cluster, 12)
    rig.commit()
    assert outputs(cluster) == [("k", "ours:1")]
    committed = metadata(cluster)
    told = decode_cut(committed.metadata, committed_offset=committed.offset or 0)
    assert told.processor_times == {"final": 12}
    rig.stop()
    streams = encode_cut_of_streams(12, {"final": 12})
    cluster.group("app").offsets.committed[IN] = Committed(committed.offset, streams)
    rig = WorkerRig(cluster, lambda builder: windowed(builder, "ours"), disk=Disk())
    assert clocks(rig.start().until_running())["emitted:ours"] == 12


def encode_cut_of_streams(time: int, times: dict[str, int]) -> str:
    whole = base64.b64decode(encode_cut(Cut(0), partition_time_ms=time, processor_times=times))
    return base64.b64encode(whole[: whole.index(b"L\x01")]).decode()
