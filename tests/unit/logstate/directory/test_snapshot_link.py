"""A worker's ear for snapshots, in its thread, on the fake cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from logstate.contracts.clock import SystemClock
from logstate.contracts.records import ProducedRecord
from logstate.contracts.snapshots import (
    Message,
    Present,
    SnapshotNote,
    SnapshotRequest,
    SubShape,
    decode_message,
    encode_message,
)
from logstate.contracts.topic_names import snapshots_topic
from logstate.directory.snapshot_link import SnapshotLink, SnapshotsTopic
from logstate.task.barriers import Barriers
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried

TOPIC = snapshots_topic("shop")
SHAPE = {0: SubShape(2, {}, {"between": 2})}


class Ear:
    """A link that listens, with the marks of a worker that does nothing."""

    def __init__(self) -> None:
        self.cluster = unhurried({TOPIC: 1})
        self.marks = Barriers()
        self.marks.shape = SHAPE
        clock, topic = SystemClock(), SnapshotsTopic("shop")
        self.link = SnapshotLink(topic, self.cluster, clock, lambda: self.marks, lambda: ("0_1",))
        self.link.start()

    def ordered(self, order: SnapshotRequest) -> None:
        producer = self.cluster.plain_producer()
        producer.produce([ProducedRecord(TOPIC, 0, b"order", encode_message(order), 1)])
        producer.flush()

    def said(self) -> list[Message | None]:
        messages = (decode_message(r.value() or b"") for r in self.cluster.records(TOPIC))
        return [one for one in messages if not isinstance(one, SnapshotRequest)]

    def until(self, is_true: Callable[[], bool]) -> None:
        assert self.cluster.wait_for(is_true, PATIENCE_S)


@pytest.fixture
def ear() -> Iterator[Ear]:
    one = Ear()

    def has_answered() -> bool:
        one.ordered(SnapshotRequest("first", 0))  # said again until it listens
        return one.cluster.wait_for(lambda: len(one.said()) > 0, 0.2)

    until(has_answered)
    yield one
    one.link.stop()


def test_an_order_is_obeyed_and_then_answered_with_the_tasks_that_run(ear: Ear) -> None:
    ear.ordered(SnapshotRequest("s", 4))

    ear.until(lambda: ear.said()[-1] == Present("s", 4, ("0_1",), SHAPE))
    assert ear.marks.wanted == SnapshotRequest("s", 4)


def test_the_end_of_another_snapshot_is_not_the_end_of_the_newest(ear: Ear) -> None:
    ear.ordered(SnapshotRequest("mine", 1))
    ear.ordered(SnapshotRequest("another", 1_000, is_over=True))
    ear.ordered(SnapshotRequest("mine", 2))

    ear.until(lambda: ear.said()[-1] == Present("mine", 2, ("0_1",), SHAPE))
    assert not [one for one in ear.said() if isinstance(one, Present) and one.id == "another"]
    ear.ordered(SnapshotRequest("mine", 3, is_over=True))
    ear.until(lambda: ear.marks.wanted == SnapshotRequest("mine", 3, is_over=True))


def test_what_was_noted_goes_out_as_it_is(ear: Ear) -> None:
    note = SnapshotNote("s", "0_1", {"in": (7, "cut")}, b"\x00more")
    ear.marks.notes.append(note)

    ear.until(lambda: note in ear.said())
