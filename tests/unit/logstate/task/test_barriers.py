"""The marks of a snapshot at tasks: what they hold back, until when, and what ends them."""

from __future__ import annotations

import pytest

from logstate.contracts.errors import AbortableError
from logstate.contracts.snapshots import SnapshotRequest
from logstate.task.barriers import Barriers
from logstate.testing.fake.faults import Fault
from logstate.topology import StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send


def forwarded(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).repartition(name="between", key=str).to("out")


@pytest.fixture
def rig() -> WorkerRig:
    rig = WorkerRig(cluster_of({"in": 1, "out": 1}), forwarded).start()
    return rig.until_running("0_0", "1_0")


def marks(rig: WorkerRig) -> Barriers:
    return rig.worker.fetch_buffer.barriers


def settled(rig: WorkerRig) -> list[str | None]:
    """The keys that have come out, after a while in which nobody is told anything."""
    for _ in range(8):
        rig.commit()
    return [key for key, _ in outputs(rig.cluster)]


def end(rig: WorkerRig) -> int:
    (log,) = rig.cluster.topic("app-between-repartition").logs
    return log.end


def test_a_task_works_up_to_its_mark_cuts_there_and_goes_on(rig: WorkerRig) -> None:
    send(rig.cluster, *"ab")
    assert settled(rig) == ["a", "b"]
    mark = end(rig) + 1  # the next record, and nothing behind it
    marks(rig).wanted = SnapshotRequest("s", 1, {1: {"app-between-repartition": {0: mark}}})
    rig.turn()
    send(rig.cluster, *"cde")

    assert settled(rig) == list("abcde")
    (note,) = marks(rig).notes
    assert (note.task, note.committed["app-between-repartition"][0]) == ("1_0", mark)


def test_a_task_that_is_further_already_never_cuts(rig: WorkerRig) -> None:
    send(rig.cluster, *"ab")
    settled(rig)
    marks(rig).wanted = SnapshotRequest("s", 1, {1: {"app-between-repartition": {0: 1}}})
    send(rig.cluster, *"cd")

    assert settled(rig) == list("abcd")
    assert not marks(rig).notes


def test_who_holds_stands_still_behind_its_cut_until_an_order_no_longer_names_it(
    rig: WorkerRig,
) -> None:
    marks(rig).wanted = SnapshotRequest("s", 1, {0: {}}, (0,), hold_ms=10_000_000)
    rig.until(lambda: marks(rig).notes)
    send(rig.cluster, *"ab")
    assert settled(rig) == []

    marks(rig).wanted = SnapshotRequest("s", 2, {}, ())
    assert settled(rig) == ["a", "b"]


def test_nobody_stands_still_for_longer_than_the_order_says(rig: WorkerRig) -> None:
    marks(rig).wanted = SnapshotRequest("s", 1, {0: {}}, (0,), hold_ms=200)
    rig.until(lambda: marks(rig).notes)
    send(rig.cluster, *"ab")

    assert settled(rig) == ["a", "b"]


@pytest.mark.parametrize("is_over", [True, False])
def test_an_order_ends_by_another_one_or_by_its_age(rig: WorkerRig, is_over: bool) -> None:
    far = {1: {"app-between-repartition": {0: 0}}}
    marks(rig).wanted = SnapshotRequest("s", 1, far, (0,), life_ms=500)
    rig.turn()
    assert marks(rig).is_alert
    if is_over:
        marks(rig).wanted = SnapshotRequest("s", 2, is_over=True)
        rig.turn()
    else:
        rig.clock.advance(501)
        rig.turn(2)

    assert not marks(rig).is_alert
    send(rig.cluster, *"ab")
    assert settled(rig) == ["a", "b"]


def test_an_aborted_cut_is_made_again(rig: WorkerRig) -> None:
    rig.cluster.faults.add(Fault("commit", AbortableError("planted")))
    marks(rig).wanted = SnapshotRequest("s", 1, {0: {}}, (0,), hold_ms=100)
    send(rig.cluster, *"ab")

    assert settled(rig) == ["a", "b"]
    assert {note.task for note in marks(rig).notes} == {"0_0"}
    assert rig.total("transactions_aborted_total") == 1
