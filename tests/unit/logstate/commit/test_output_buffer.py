"""Where outputs go while a commit is under way."""

from __future__ import annotations

import pytest

from logstate.commit.output_buffer import OutputBuffer
from logstate.contracts.clients import run_steps
from logstate.contracts.records import ProducedRecord
from logstate.topology import StreamsBuilder
from tests.unit.logstate.commit.commit_rig import CommitRig

AGAIN = "app-again-repartition"


def repartitioned(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).repartition(name="again").to("out")


def record(topic: str, value: str) -> ProducedRecord:
    return ProducedRecord(topic, 0, b"k", value.encode(), 5)


class Sends:
    """An output buffer, its clients, and what has arrived."""

    def __init__(self, *, at_least_once: bool) -> None:
        self.rig = CommitRig(repartitioned, at_least_once=at_least_once, **{AGAIN: 1})
        self.output_buffer: OutputBuffer = self.rig.committer.output_buffer
        self.transactions = self.rig.transactions

    def send(self, topic: str, *values: str) -> None:
        run_steps(self.output_buffer.send([record(topic, value) for value in values]))

    def commit(self) -> None:
        run_steps(self.transactions._end_transaction())

    def arrived(self, topic: str) -> list[str]:
        return [(r.value() or b"").decode() for r in self.rig.cluster.records(topic)]


@pytest.fixture
def exactly_once() -> Sends:
    return Sends(at_least_once=False)


@pytest.fixture
def at_least_once() -> Sends:
    return Sends(at_least_once=True)


def test_what_is_held_back_begins_the_next_transaction_in_order(exactly_once: Sends) -> None:
    sends = exactly_once
    sends.send("out", "1")
    sends.output_buffer.defer()
    sends.send("out", "2")
    sends.send("out", "3")
    assert sends.output_buffer.deferred_total == 2
    sends.commit()
    assert sends.arrived("out") == ["1"]
    run_steps(sends.output_buffer.release())
    sends.send("out", "4")
    assert sends.output_buffer.deferred_total == 0
    sends.commit()
    assert sends.arrived("out") == ["1", "2", "3", "4"]


def test_without_anything_held_back_no_transaction_begins(exactly_once: Sends) -> None:
    sends = exactly_once
    sends.output_buffer.defer()
    run_steps(sends.output_buffer.release())
    assert not sends.transactions.is_open


def test_what_is_undone_is_not_sent(exactly_once: Sends) -> None:
    sends = exactly_once
    sends.send("out", "1")
    sends.output_buffer.defer()
    sends.send("out", "2")
    sends.output_buffer.discard()
    assert sends.output_buffer.deferred_total == 0
    sends.send("out", "3")
    sends.commit()
    assert sends.arrived("out") == ["1", "3"]


def test_at_least_once_outputs_go_on_and_repartition_records_wait(at_least_once: Sends) -> None:
    sends = at_least_once
    sends.send(AGAIN, "1")
    sends.output_buffer.defer()
    sends.send("out", "a")
    sends.send(AGAIN, "2")
    assert sends.arrived("out") == ["a"]
    sends.commit()
    assert sends.arrived(AGAIN) == ["1"]
    run_steps(sends.output_buffer.release())
    sends.commit()
    assert sends.arrived(AGAIN) == ["1", "2"]


def test_not_too_many_at_least_once_outputs_go_on_before_those_of_the_commit_are_delivered(
    at_least_once: Sends,
) -> None:
    sends = at_least_once
    sends.output_buffer.defer()
    first = [str(number) for number in range(200)]
    sends.send("out", *first)
    sends.send("out", "x")
    sends.send("out", "y")
    assert sends.arrived("out") == first
    assert sends.output_buffer.deferred_total == 2
    run_steps(sends.output_buffer.flush())
    assert sends.arrived("out") == [*first, "x", "y"]
    sends.send("out", "z")
    assert sends.output_buffer.deferred_total == 0
    assert sends.arrived("out")[-1] == "z"
