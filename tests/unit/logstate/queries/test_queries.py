"""Reading local state: committed rows of this instance's partitions, or why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import StoreError, StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition, Windowed
from logstate.queries.queries import QueryableStore
from logstate.queries.reader import LocalStores
from logstate.queries.requests import ReadRequest
from logstate.task.owned_task import OwnedTask, Stage
from logstate.testing import FakeCluster
from logstate.topics.placement import places_of
from logstate.topology import Materialized, SessionWindows, StreamsBuilder, TumblingWindows
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

LOG = "app-counts-changelog"


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


def store_of(rig: WorkerRig, name: str = "counts", count: int | None = 2) -> QueryableStore:
    """The store as the application gives it out."""
    return stores_of(rig, count).named(name)


def stores_of(
    rig: WorkerRig,
    count: int | None = 2,
    tasks: Callable[[], Mapping[TaskId, OwnedTask]] | None = None,
) -> LocalStores:
    places = places_of(rig.worker._starting.topology, "app")
    placed = {name: replace(place, is_placed=True) for name, place in places.items()}
    return LocalStores(placed, "app", tasks or (lambda: rig.observer.tasks), lambda _: count)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 2})


@pytest.fixture
def rig(cluster: FakeCluster) -> WorkerRig:
    """Both partitions run here; "a" to "e" were counted."""
    send(cluster, "a", "b", "c", "d", "e", "a")
    made = WorkerRig(cluster, counted).start()
    made.until_running("0_0", "0_1")
    made.commit()
    return made


HERE = {key: partition_of(key.encode(), 2) for key in "abcde"}


# --- by key ---------------------------------------------------------------------------------------


def test_a_key_is_read_from_its_partition(rig: WorkerRig) -> None:
    assert set(HERE.values()) == {0, 1}, "the keys must tell the partitions apart"
    store = store_of(rig)
    assert {key: store.get(key).value for key in HERE} == {"a": 2, **dict.fromkeys("bcde", 1)}
    assert store.get("unknown") is None


def test_a_partition_can_be_named(rig: WorkerRig) -> None:
    store = store_of(rig)
    assert store.get("a", partition=HERE["a"]).value == 2
    assert store.get("a", partition=1 - HERE["a"]) is None


def test_only_committed_rows_are_seen(rig: WorkerRig, cluster: FakeCluster) -> None:
    store = store_of(rig)
    send(cluster, "a", "new")
    rig.turn(2)
    assert store.get("a").value == 2
    assert store.get("new") is None
    rig.commit()
    assert store.get("a").value == 3
    assert store.get("new").value == 1


def test_before_the_start_nothing_is_known(rig: WorkerRig) -> None:
    with pytest.raises(StoreUnavailableError, match="the application has not started"):
        store_of(rig, count=None).get("a")


def test_a_key_of_another_instance_is_an_error_that_says_what_is_here(
    rig: WorkerRig, cluster: FakeCluster
) -> None:
    other = WorkerRig(cluster, counted, name="two").start()
    for _ in range(20):
        rig.turn()
        other.turn()
    store, (here,) = store_of(rig), store_of(rig).partitions
    for key, partition in HERE.items():
        if partition == here:
            assert store.get(key).value >= 1
        else:
            with pytest.raises(
                StoreUnavailableError,
                match=rf"'counts': the key's partition {partition} is not on this instance, which"
                rf" has partitions \[{here}\]; ask the instance",
            ):
                store.get(key)
            assert store_of(other).get(key).value >= 1


# --- while tasks start ----------------------------------------------------------------------------


def restoring(cluster: FakeCluster) -> WorkerRig:
    """A worker whose partition 0 waits behind an open transaction in its changelog."""
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    send(cluster, *HERE)
    rig.commit()
    rig.stop()
    producer = cluster.transactional_producer("slow")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(LOG, 0, b"x", b"x", 5)])
    producer.flush()
    rig = WorkerRig(cluster, counted, name="two").start()
    rig.until(lambda: rig.stages.get("0_1") is Stage.RUNNING)
    return rig


def test_a_partition_that_is_restored_says_how_far_it_is(cluster: FakeCluster) -> None:
    rig = restoring(cluster)
    assert rig.stages["0_0"] is Stage.RESTORING
    store = store_of(rig)
    key = next(key for key, partition in HERE.items() if partition == 0)
    with pytest.raises(
        StoreUnavailableError,
        match=r"'counts': partition 0 is restoring on this instance \(counts: offset \d+ of \d+\)",
    ):
        store.get(key)
    assert store.partitions == [1]
    for running in (key for key, partition in HERE.items() if partition == 1):
        assert store.get(running).value == 1


def test_reading_over_all_partitions_raises_where_one_is_missing(cluster: FakeCluster) -> None:
    with pytest.raises(StoreUnavailableError, match="partition 0 is restoring"):
        list(store_of(restoring(cluster)).all())


def test_a_task_that_was_just_assigned_waits_for_its_offsets(rig: WorkerRig) -> None:
    owned = rig.tasks[f"0_{HERE['a']}"]
    owned.move_to(Stage.ASSIGNED)
    owned.current_ms = None  # it never ran here
    owned.targets = []
    with pytest.raises(
        StoreUnavailableError, match=r"assigned .*waiting for its committed offsets"
    ):
        store_of(rig).get("a")


def test_a_task_that_has_its_rows_and_has_not_begun_is_not_read(rig: WorkerRig) -> None:
    owned = rig.tasks[f"0_{HERE['a']}"]
    for stage in (Stage.ASSIGNED, Stage.RESTORING, Stage.STARTING):
        owned.move_to(stage)
    owned.current_ms = None  # it never ran here, and may be another member's by now
    with pytest.raises(StoreUnavailableError, match="is starting on this instance"):
        store_of(rig).get("a")


def test_rows_are_as_new_as_the_last_poll_that_took_nothing_away(rig: WorkerRig) -> None:
    owned = rig.tasks[f"0_{HERE['a']}"]
    polled_ms = rig.clock.monotonic_ms()

    def stand_still(step: Step) -> None:
        if step.name == "poll":
            rig.clock.advance(5_000)

    rig.before = stand_still
    rig.turn()
    assert owned.current_ms == polled_ms


def test_an_instance_without_partitions_says_so(rig: WorkerRig) -> None:
    store = store_of(rig)
    rig.stop()
    assert store.partitions == []
    with pytest.raises(StoreUnavailableError, match="owns none of its partitions"):
        list(store.all())
    with pytest.raises(StoreUnavailableError, match=r"has partitions \[\]"):
        store.get("a")


def test_a_task_that_was_closed_during_the_query_is_an_error(rig: WorkerRig) -> None:
    tasks = dict(rig.observer.tasks)
    store = stores_of(rig, tasks=lambda: tasks).named("counts")
    rig.stop()
    with pytest.raises(StoreUnavailableError, match="closed on this instance"):
        store.get("a")


# --- over all partitions --------------------------------------------------------------------------


def test_all_rows_come_partition_by_partition_each_in_key_order(rig: WorkerRig) -> None:
    keys = [key for key, _ in store_of(rig).all()]
    assert keys == sorted(HERE, key=lambda key: (HERE[key], key))


def test_all_rows_come_backwards_within_each_partition_and_are_counted(rig: WorkerRig) -> None:
    store = store_of(rig)
    backwards = [key for key, _ in store.reverse_all()]
    assert backwards == sorted(HERE, key=lambda key: (HERE[key], -ord(key)))
    assert store.approximate_num_entries() == len(HERE)


def test_rows_are_counted_where_a_partition_is_and_nowhere_else(
    rig: WorkerRig, cluster: FakeCluster
) -> None:
    other = WorkerRig(cluster, counted, name="two").start()
    with pytest.raises(StoreUnavailableError, match="owns none of its partitions"):
        store_of(other).approximate_num_entries()
    for _ in range(20):
        rig.turn()
        other.turn()
    counts = [store_of(one).approximate_num_entries() for one in (rig, other)]
    assert sum(counts) == len(HERE)
    assert 0 not in counts


def test_ranges_and_prefixes_go_over_all_partitions(rig: WorkerRig) -> None:
    store = store_of(rig)
    assert {key for key, _ in store.range("b", "d")} == {"b", "c", "d"}
    assert {key for key, _ in store.prefix_scan("a")} == {"a"}
    backwards = [key for key, _ in store.reverse_range()]
    assert backwards == sorted(HERE, key=lambda key: (HERE[key], -ord(key)))


def test_a_reader_that_has_begun_goes_on_over_commits_and_applies(
    rig: WorkerRig, cluster: FakeCluster
) -> None:
    rows = store_of(rig).range("a", "e")
    next(rows)
    for _ in range(3):
        send(cluster, *HERE)
        rig.clock.advance(10_000)
        rig.commit()
    assert len(list(rows)) == len(HERE) - 1


# --- other kinds of stores ------------------------------------------------------------------------


def running(cluster: FakeCluster, declare: Callable[[StreamsBuilder], object]) -> WorkerRig:
    rig = WorkerRig(cluster, declare).start()
    rig.until_running()
    rig.commit()
    return rig


@pytest.fixture
def timed() -> FakeCluster:
    """One key at 1, 2 and 11 seconds."""
    cluster = cluster_of({"in": 1})
    for second in (1, 2, 11):
        cluster.produce("in", b"a", str(second).encode(), timestamp=second * 1_000)
    return cluster


def test_windows_are_read_by_key_and_time(timed: FakeCluster) -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        windows = TumblingWindows(size=timedelta(seconds=10))
        store = Materialized("windows", retention=timedelta(hours=1))
        grouped.windowed_by(windows).count(store=store)

    store: Any = store_of(running(timed, declare), "windows", 1)
    assert store.fetch("a", 0).value == 2
    assert store.fetch("a", 5_000) is None
    assert [start for start, _ in store.fetch_range("a", 0, 10_000)] == [0, 10_000]
    backwards = store.fetch_range("a", 0, 10_000, reverse=True)
    assert [start for start, _ in backwards] == [10_000, 0]
    assert [window.key for window, _ in store.fetch_all(0, 0)] == ["a"]
    assert [window.key for window, _ in store.fetch_key_range("a", "b", 0, 0)] == ["a"]
    assert list(store.fetch_key_range("b", None, 0, 0)) == []
    assert len(list(store.all())) == 2


def test_sessions_are_read_by_key_and_span(timed: FakeCluster) -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        windows = SessionWindows(gap=timedelta(seconds=5))
        store = Materialized("sessions", retention=timedelta(hours=1))
        grouped.windowed_by(windows).count(store=store)

    store: Any = store_of(running(timed, declare), "sessions", 1)
    first = Windowed("a", 1_000, 2_000)
    assert store.fetch_session("a", 1_000, 2_000) == 2
    assert [session for session, _ in store.find_sessions("a", 0, 3_000)] == [first]
    assert [count for _, count in store.fetch("a")] == [2, 1]
    in_range = store.find_sessions_of_key_range(None, "a", 0, 3_000)
    assert [session for session, _ in in_range] == [first]


def test_versions_are_read_as_of_a_time(timed: FakeCluster) -> None:
    def declare(builder: StreamsBuilder) -> None:
        store = Materialized("versions", history=timedelta(hours=1))
        builder.table("in", key=str, value=str, store=store)

    store: Any = store_of(running(timed, declare), "versions", 1)
    assert store.get("a").value == "11"
    assert store.get("a", 1_500).value == "1"
    assert [version.value for version in store.versions("a")] == ["1", "2", "11"]
    assert [version.value for version in store.versions("a", 1_500, 3_000)] == ["1", "2"]


def test_versions_before_the_history_are_not_shown(timed: FakeCluster) -> None:
    def declare(builder: StreamsBuilder) -> None:
        store = Materialized("versions", history=timedelta(milliseconds=1))
        builder.table("in", key=str, value=str, store=store)

    store: Any = store_of(running(timed, declare), "versions", 1)
    assert list(store.versions("a", 0, 1_500)) == []
    assert store.get("a", 1_500) is None
    assert [version.value for version in store.versions("a")][-1] == "11"


def test_a_read_that_the_kind_does_not_have_names_those_it_has(rig: WorkerRig) -> None:
    with pytest.raises(
        StoreError, match=r"'counts' is a timestamped_key_value store and has no fetch\(\).*: get,"
    ):
        store_of(rig).fetch("a", 0)
    with pytest.raises(StoreError, match=r"has no fetch_all\(\)"):
        list(store_of(rig).fetch_all(0, 1))


def test_nothing_can_be_written_through_a_query(rig: WorkerRig) -> None:
    writes = ("put", "put_all", "put_if_absent", "delete", "remove")
    assert not [name for name in writes if hasattr(store_of(rig), name)]


def test_positions_of_other_sub_topologies_are_no_partitions_of_the_store(rig: WorkerRig) -> None:
    store = store_of(rig)
    store._place = replace(store._place, sub_topology=7)
    assert store.partitions == []
    assert TopicPartition("in", 0) in rig.tasks["0_0"].partitions


def request_of(key: str) -> ReadRequest:
    """A request of an instance, which wants positions."""
    return ReadRequest("here", "counts", HERE[key], "get", (key,))


def end_offsets(cluster: FakeCluster) -> dict[str, int]:
    """Of the input partition of "a"."""
    partition = TopicPartition("in", HERE["a"])
    return {str(partition): cluster.admin().end_offsets([partition])[partition]}


def test_an_answer_has_the_positions_of_the_commit_that_it_was_read_from(
    cluster: FakeCluster, rig: WorkerRig
) -> None:
    def answered(key: str) -> tuple[int, Mapping[str, int]]:
        answer = stores_of(rig).read(request_of(key))
        return answer.value.value, answer.positions

    before = end_offsets(cluster)
    assert answered("a") == (2, before)
    send(cluster, "a")
    assert answered("a") == (2, before), "not committed yet"
    rig.commit()
    assert answered("a") == (3, end_offsets(cluster))


def test_a_task_has_its_positions_as_soon_as_it_is_restored(
    cluster: FakeCluster, rig: WorkerRig
) -> None:
    rig.stop()
    again = WorkerRig(cluster, counted).start()
    again.until_running("0_0", "0_1")
    assert stores_of(again).read(request_of("a")).positions == end_offsets(cluster)


def test_there_is_no_answer_where_the_partition_went_elsewhere_while_it_was_read(
    rig: WorkerRig,
) -> None:
    looks = iter([dict(rig.observer.tasks), {}, {}])
    stores = stores_of(rig, tasks=lambda: next(looks))
    with pytest.raises(StoreUnavailableError, match="not on this instance, which has partitions"):
        stores.read(request_of("a"))
