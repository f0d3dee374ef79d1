"""Standbys: a task that moves goes on where its copy is, and replays the tail only."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import RetriableError, StoreCorruptedError
from logstate.contracts.records import TaskId
from logstate.restore import standbys
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

TASK = TaskId(0, 0)
#: after which the ends of changelogs are asked for again
ASK_MS = 1_000


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "out": 1})


def members(*rigs: WorkerRig) -> tuple[Peer, ...]:
    ids = [(rig, rig.process.name) for rig in rigs]
    return tuple(Peer(_member_id(rig), None, name) for rig, name in ids)


def _member_id(rig: WorkerRig) -> str:
    started = rig.worker._started
    assert started is not None
    return started.consumer.member_id()


def pair(cluster: FakeCluster, **config: Any) -> tuple[WorkerRig, WorkerRig]:
    """The first one has the task; the second one follows it."""
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1, **config).start()
    first.until_running("0_0")
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1, **config).start()
    second.until(lambda: second.observer.is_assigned)
    tell(first, second)
    return first, second


def tell(*rigs: WorkerRig) -> None:
    for rig in rigs:
        rig.worker.control.group_view = GroupView(members(*rigs))


def follow(first: WorkerRig, second: WorkerRig) -> None:
    """Until the standby has what is committed."""
    first.commit()
    first.clock.advance(ASK_MS)
    second.turn(8)


def together(first: WorkerRig, second: WorkerRig, turns: int = 30) -> None:
    """Both run for a while."""
    for _ in range(turns):
        first.turn()
        second.turn()
        first.clock.advance(10)


def lag(rig: WorkerRig) -> int | None:
    return rig.worker.followed.reports[TASK].lag


def die(first: WorkerRig, second: WorkerRig) -> None:
    """The first one is killed, and the group notices."""
    gone = _member_id(first)
    first.kill()
    second.cluster.group("app").leave(gone)


def restored(rig: WorkerRig) -> int:
    return rig.tasks["0_0"].restored_records


def test_the_id_of_a_member_is_asked_for_after_a_rebalance_and_not_each_turn(
    cluster: FakeCluster,
) -> None:
    first, second = pair(cluster)
    second.turn(2)
    followed, asked = second.worker.followed, list[str]()
    known = followed._ask_member_id

    def ask() -> str:
        asked.append(known())
        return asked[-1]

    followed._ask_member_id = ask
    second.turn(8)
    assert asked == []
    die(first, second)
    second.until_running("0_0")
    assert set(asked) == {_member_id(second)}
    asked.clear()
    second.turn(8)
    assert asked == []


def test_a_promoted_standby_replays_nothing_that_it_has(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, *"abcab")
    follow(first, second)
    assert lag(second) == 0
    die(first, second)
    second.until_running("0_0")
    assert restored(second) == 0
    send(cluster, *"abc")
    second.commit()
    assert outputs(cluster)[-3:] == [("a", "3"), ("b", "3"), ("c", "2")]


def test_a_promoted_standby_replays_the_tail_that_it_has_not(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, *"abcab")
    follow(first, second)
    send(cluster, *"xyz")
    first.commit()  # the standby asks for the ends too seldom to see it
    die(first, second)
    second.until_running("0_0")
    assert restored(second) == 3


def test_what_was_not_committed_is_in_no_standby(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, *"ab")
    follow(first, second)
    send(cluster, *"ab")
    first.drive_to("commit")
    die(first, second)
    for _ in range(20):  # until the transaction of the dead one is ended
        first.clock.advance(1_000)
        second.turn(2)
    second.until_running("0_0")
    second.commit()
    assert outputs(cluster) == [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")]


def test_a_standby_is_given_up_when_another_member_is_the_heir(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, "a")
    follow(first, second)
    nearer = Peer(members(second)[0].member_id + "0", None, "c")
    own = members(first, second)
    second.worker.control.group_view = GroupView((own[0], nearer, own[1]))
    second.turn()
    assert TASK in second.worker.followed.reports  # the order of the ids decides, not of the list
    nearer = Peer(members(first)[0].member_id + "0", None, "c")
    second.worker.control.group_view = GroupView((own[0], nearer, own[1]))
    second.turn()
    assert TASK not in second.worker.followed.reports
    die(first, second)
    second.until_running("0_0")
    assert restored(second) == 0  # its rows are on the disk


def test_a_member_that_follows_nothing_any_more_reads_no_logs(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, "a")
    follow(first, second)
    nearer = Peer(members(first)[0].member_id + "0", None, "c")
    own = members(first, second)
    second.worker.control.group_view = GroupView((own[0], nearer, own[1]))
    second.steps.clear()
    second.turn(5)
    assert [name for name in second.steps if "standby" in name] == ["standby_rest"]


def test_a_task_is_followed_before_the_group_has_noticed_that_its_owner_is_gone(
    cluster: FakeCluster,
) -> None:
    first, second = pair(cluster)
    second.worker.control.group_view = GroupView(members(second))
    send(cluster, *"ab")
    follow(first, second)
    assert lag(second) == 0


def test_a_list_without_this_member_changes_nothing(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, "a")
    follow(first, second)
    second.worker.control.group_view = GroupView(members(first))
    second.turn()
    assert lag(second) == 0


def test_a_damaged_standby_is_built_anew_while_its_worker_goes_on(cluster: FakeCluster) -> None:
    first, second = pair(cluster, checkpoint_interval_ms=0)
    send(cluster, "a")
    follow(first, second)
    state = second.worker.followed._standbys.tasks[TASK].task.state  # type: ignore[union-attr]
    state.apply = _raises(StoreCorruptedError("a block of it is damaged"))  # type: ignore[method-assign]
    send(cluster, "b")
    follow(first, second)
    assert second.disk.destroyed == [TASK]
    second.clock.advance(1_000)
    second.turn(8)
    assert lag(second) == 0
    die(first, second)
    second.until_running("0_0")
    assert restored(second) == 0


def test_brokers_that_do_not_answer_delay_a_standby_and_nothing_else(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    second.before = _fails_at("standby_poll", RetriableError("timed out"))
    send(cluster, "a")
    follow(first, second)
    assert lag(second)
    second.before = lambda step: None
    follow(first, second)
    assert lag(second) == 0


def test_a_standby_reads_no_faster_than_it_may(cluster: FakeCluster) -> None:
    first, second = pair(cluster, standby_bytes_per_s=10)
    send(cluster, *[f"{n:010}" for n in range(5)])
    follow(first, second)
    send(cluster, *[f"{n:010}" for n in range(5, 10)])
    follow(first, second)
    assert lag(second)  # the five before have to be paid for first
    second.clock.advance(60_000)
    follow(first, second)
    assert lag(second) == 0


def test_beside_tasks_that_run_copies_are_opened_one_by_one_with_rests_between() -> None:
    cluster = cluster_of({"in": 6, "out": 1})
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    for _ in range(20):
        first.turn()
        second.turn()
    assert Stage.RUNNING in second.stages.values()
    followed = second.worker.followed._standbys
    assert followed is not None
    opens, opened_ms = followed._rows.open, list[float]()

    def slowly(*of: Any) -> None:
        opened_ms.append(second.clock.monotonic_ms())
        second.clock.advance(30)
        opens(*of)

    followed._rows.open = slowly  # type: ignore[method-assign]
    tell(first, second)
    for _ in range(100):
        second.turn()
        second.clock.advance(5)
    waited_ms = [after - before for before, after in itertools.pairwise(opened_ms)]
    assert len(waited_ms) >= 2, "there are three copies"
    assert all(120 <= ms <= 130 for ms in waited_ms), waited_ms


def test_while_tasks_move_copies_are_left_alone_for_a_moment() -> None:
    cluster = cluster_of({"in": 6, "out": 1})
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    first.until(lambda: Stage.RUNNING in first.stages.values())
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    second.until(lambda: second.worker._started is not None)
    tell(first, second)
    second.turn()
    first.until(lambda: len(first.stages) == 3)
    followed = first.worker.followed.tasks
    first.turn(8)
    assert Stage.STANDBY not in {one.stage for one in followed.values()}
    first.clock.advance(200)
    first.turn(8)
    assert Stage.STANDBY in {one.stage for one in followed.values()}


def test_a_task_that_comes_back_is_opened_where_it_was_left(cluster: FakeCluster) -> None:
    first, second = pair(cluster)
    send(cluster, *"ab")
    follow(first, second)
    cluster.group("app").leave(members(first)[0].member_id)
    second.until_running("0_0")
    tell(first, second)
    first.until(lambda: first.stages.get("0_0") is not Stage.RUNNING)
    send(cluster, *"ab")
    for _ in range(5):
        second.commit()
        first.clock.advance(ASK_MS)
        first.turn(8)
    assert outputs(cluster) == [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")]


def _fails_at(name: str, error: Exception) -> Any:
    def before(step: Step) -> None:
        if step.name == name:
            raise error

    return before


def _raises(error: Exception) -> Any:
    def raises(*_: object) -> None:
        raise error

    return raises


def test_a_task_that_another_member_is_given_stays_open_here_as_its_standby() -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    first.until_running("0_0", "0_1")
    before = {task_id: owned.task for task_id, owned in first.worker._tasks.all().items()}
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    second.until(lambda: second.worker._started is not None)
    tell(first, second)
    together(first, second)
    (kept,) = first.worker.followed.tasks.items()
    assert kept[0] not in first.worker._tasks.all()
    assert kept[1].task is before[kept[0]]
    assert kept[1].stage is Stage.STANDBY


def with_both_tasks(cluster: FakeCluster, keys: str) -> WorkerRig:
    """A member that follows what it is not assigned, with a committed row per key in each task."""
    rig = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    rig.until_running("0_0", "0_1")
    for partition in (0, 1):
        send(cluster, *keys, partition=partition)
    rig.commit()
    return rig


def test_a_task_that_is_given_away_is_freed_in_parts_and_closed_where_no_copy_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standbys, "_FREED_ROWS", 2)
    cluster = cluster_of({"in": 2, "out": 1})
    first = with_both_tasks(cluster, "abcdefg")
    second = WorkerRig(cluster, counted, name="b").start()
    held = []
    for _ in range(30):
        together(first, second, turns=1)
        held += [one.task.state.cached_rows() for one in first.worker.followed.tasks.values()]
    assert len(first.worker._tasks.all()) == 1
    assert first.worker.followed.tasks == {}
    assert all(more - less <= 2 for more, less in itertools.pairwise(held))
    assert held[0] - held[-1] >= 6, held


def test_a_task_that_comes_back_while_its_copy_is_being_closed_waits_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    first = with_both_tasks(cluster, "ab")
    monkeypatch.setattr(cluster, "background_looks", lambda: 1_000_000)  # a disk that is slow
    second = WorkerRig(cluster, counted, name="b").start()
    together(first, second)
    followed = first.worker.followed._standbys
    assert followed is not None
    (closing,) = followed._closings
    assert closing not in first.worker._tasks.all()
    die(second, first)
    first.until_running("0_0", "0_1")
    assert followed._closings == {}
    assert first.tasks[str(closing)].restored_records == 0
