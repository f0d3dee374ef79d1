"""What a wall-clock schedule sent is refused: the handler is asked about the call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProductionError
from logstate.contracts.records import Record
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    fail,
    retry,
    skip,
)
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topology import Processor, ProcessorContext, StreamsBuilder, key_value_store
from tests.unit.logstate.worker.test_poison_record import BIG, keys, narrow, put, running, settle

RUNG = key_value_store("rung", str, int)


@pytest.fixture
def cluster() -> FakeCluster:
    return narrow()


class Bells(Processor[str, str, str, str]):
    """Two schedules: every second a bell that fits, and one that is refused."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.rung = context.store("rung")
        for name, value in (("good", "ding"), ("bad", BIG)):
            self._every_second(name, value)

    def _every_second(self, name: str, value: str) -> None:
        def ring(now: int) -> None:
            self.rung.put(name, (self.rung.get(name) or 0) + 1)
            self.context.forward(Record(name, value, now))

        self.context.schedule(timedelta(seconds=1), "wall_clock", ring)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def bells(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.process(Bells, stores=[RUNG]).to("out", key=str, value=str)


def rung(rig: Any) -> dict[str, int]:
    return dict(rig.store("0_0", "rung").all())


def test_the_call_is_passed_over_and_everything_else_goes_on(cluster: FakeCluster) -> None:
    rig = running(cluster, skip, bells)
    put(cluster, ("a", "1"))
    settle(rig, 100)
    put(cluster, ("b", "2"))
    settle(rig, 100)
    assert [key for key in keys(cluster) if key != "good"] == ["a", "b"]
    assert 15 <= keys(cluster).count("good") <= 20, "one each second"
    assert rung(rig) == {"good": keys(cluster).count("good")}, "a call is undone as a whole"
    assert rig.tasks["0_0"].task.skipped_total >= 10


def test_what_the_call_wrote_is_kept_on_request(cluster: FakeCluster) -> None:
    rig = running(cluster, skip, bells, on_skip="keep")
    settle(rig, 100)
    assert set(keys(cluster)) == {"good"}
    assert rung(rig)["bad"] >= 5


def test_the_handler_is_told_of_a_schedule_without_a_record(cluster: FakeCluster) -> None:
    heard: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        heard.append(record)
        return skip(record)

    rig = running(cluster, remember, bells)
    settle(rig, 15)
    assert (heard[0].source, heard[0].stage, heard[0].attempt) == (None, "production", 1)
    assert "max.message.bytes" in str(heard[0].error)


def test_a_dead_letter_tells_of_the_call(cluster: FakeCluster) -> None:
    rig = running(cluster, dead_letter, bells)
    settle(rig, 20)
    letter = cluster.records("dead")[0]
    assert (letter.key(), letter.value()) == (None, None)
    assert b"max.message.bytes" in (dict(letter.headers() or ())["__streams.errors.message"] or b"")


def test_a_call_is_tried_again_as_often_as_the_handler_says(cluster: FakeCluster) -> None:
    attempts: list[int] = []

    def thrice(record: FailedRecord) -> Decision:
        attempts.append(record.attempt)
        return retry(3, backoff=timedelta(milliseconds=300), then=skip)(record)

    rig = running(cluster, thrice, bells)
    put(cluster, ("a", "1"))
    settle(rig, 100)
    assert attempts[:4] == [1, 2, 3, 1]
    assert "a" in keys(cluster)


def test_a_call_that_went_well_after_all_is_refused_for_the_first_time_again(
    cluster: FakeCluster,
) -> None:
    """A handler that tries three times is not used up by calls of other days."""
    attempts: list[int] = []
    value = BIG

    class Bell(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            context.schedule(timedelta(seconds=1), "wall_clock", self._ring)

        def _ring(self, now: int) -> None:
            self.context.forward(Record("bell", value, now))

        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

    def again(record: FailedRecord) -> Decision:
        nonlocal value
        attempts.append(record.attempt)
        value = "fits"
        return retry(3, backoff=timedelta(0), then=skip)(record)

    def bell(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Bell, key=str, value=str).to("out")

    rig = running(cluster, again, bell)
    for _ in range(3):
        value = BIG
        settle(rig, 60)
    assert attempts == [1, 1, 1]
    assert "bell" in keys(cluster)


def test_the_application_stops_where_the_handler_says_so(cluster: FakeCluster) -> None:
    def stop(record: FailedRecord) -> Decision:  # with ``fail`` itself nobody is asked
        return fail(record)

    rig = running(cluster, stop, bells)
    put(cluster, ("a", "1"))
    with pytest.raises(ProductionError, match=r"a scheduled callback of task 0_0 .*'Bells-2'"):
        settle(rig)
    assert [key for key in keys(cluster) if key != "good"] == ["a"]


def test_a_call_is_passed_over_until_its_own_commit_has_ended() -> None:
    """One that was under way before does not forget it: the call may come again yet."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build(), error_handlers=ErrorHandlers(production=skip)) as rig:
        refusals = rig.task.guard.refusals
        refusals.of_schedule("bell", ProductionError("too large"))
        under_way = rig.task.freeze()
        refusals.carry_out("bell", None)
        rig.task.committed(under_way, {})
        assert refusals.has("bell")
        rig.task.committed(rig.task.freeze(), {})
        assert not refusals.has("bell")
