"""A scheduled callback that raises is told, and answered as a record that raises is (KIP-1033)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from logstate.contracts.errors import ProcessingError, ProductionError
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
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, key_value_store
from logstate.topology.plan.plan import Topology
from logstate.topology.processor.processor_context import ProcessorContext, PunctuationKind
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

FIVE_MS = timedelta(milliseconds=5)


class Ringing(Processor[str, str, str, str]):
    """Counts rings in a store and forwards the count; ``fails`` says which of them fail."""

    kind: PunctuationKind = "stream_time"
    fails: Callable[[int], bool] = staticmethod(lambda now: False)

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.rings = context.store("rings")
        context.schedule(FIVE_MS, self.kind, self.ring)

    def ring(self, now: int) -> None:
        self.rings.put("n", (self.rings.get("n") or 0) + 1)
        self.context.forward(Record("ring", str(now), now))
        self.context.schedule(timedelta(hours=1), "stream_time", lambda now: None)
        if self.fails(now):
            raise ValueError(f"no ring at {now}")

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def ringing(kind: PunctuationKind, fails: Callable[[int], bool]) -> Topology:
    builder = StreamsBuilder()
    declare(kind, fails)(builder)
    return builder.build()


def declare(
    kind: PunctuationKind, fails: Callable[[int], bool]
) -> Callable[[StreamsBuilder], None]:
    chosen = type("Chosen", (Ringing,), {"kind": kind, "fails": staticmethod(fails)})

    def write(builder: StreamsBuilder) -> None:
        stores = key_value_store("rings", str, int)
        stream = builder.stream("in", key=str, value=str)
        stream.process(chosen, stores=stores, name="bell").to("out", key=str, value=str)

    return write


def at_10(now: int) -> bool:
    return now == 10


def test_by_default_a_failing_schedule_stops_the_application_and_is_named() -> None:
    driver = TopologyTestDriver(ringing("wall_clock", lambda now: True))
    with pytest.raises(ProcessingError, match="a scheduled callback failed") as caught:
        driver.advance_wall_clock(5)
    error = caught.value
    assert (error.task, error.node, error.offset) == ("0_0", "bell", None)
    assert "test_failing_schedules.py" in str(error.function)
    assert "called at 5" in str(error)
    driver.close()


def test_a_record_is_not_blamed_for_the_schedule_that_it_made_due() -> None:
    driver = TopologyTestDriver(ringing("stream_time", at_10))
    with pytest.raises(ProcessingError, match="a scheduled callback failed: schedule 'bell-1'"):
        driver.pipe("in", "k", "a", timestamp=10)
    driver.close()


def test_a_skipped_schedule_is_rolled_back_and_rings_again_in_its_time() -> None:
    topology = ringing("stream_time", at_10)
    with TopologyTestDriver(topology, error_handlers=ErrorHandlers(processing=skip)) as driver:
        for now in (5, 10, 15):
            driver.pipe("in", "k", str(now), timestamp=now)
        rings = [value for key, value in driver.read("out", value=str) if key == "ring"]
        assert rings == ["5", "15"]
        assert driver.store("rings").get("n") == 2
        assert driver.task.skipped_total == 1
        # "bell-1", and what the two rings that counted have scheduled
        assert len(driver.task.punctuations.next_times()) == 3


def test_a_skipped_schedule_keeps_its_effects_on_request() -> None:
    handlers = ErrorHandlers(processing=skip, on_skip="keep")
    with TopologyTestDriver(ringing("stream_time", at_10), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "a", timestamp=10)
        assert driver.read("out", value=str) == [("k", "a"), ("ring", "10")]


def test_a_schedule_has_no_record_to_be_dead_lettered() -> None:
    heard: list[FailedRecord] = []

    def letter(record: FailedRecord) -> Decision:
        heard.append(record)
        return dead_letter(record)

    handlers = ErrorHandlers(processing=letter, dead_letter_topic="dead")
    with TopologyTestDriver(ringing("stream_time", at_10), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "a", timestamp=10)
        (sent,) = [r for r in driver.outputs if r.topic == "dead"]
    assert (sent.key, sent.value, sent.timestamp) == (None, None, 10)
    headers = dict(sent.headers or ())
    assert headers["__streams.errors.topic"] is None
    assert headers["__streams.errors.partition"] == b"-1"
    assert headers["__streams.errors.message"] == b"no ring at 10"
    (record,) = heard
    assert (record.source, record.stage, record.node) == (None, "punctuation", "bell")


def test_a_retried_schedule_holds_up_the_records_behind_it() -> None:
    failures = [True, True, False]
    topology = ringing("stream_time", lambda now: now == 10 and failures.pop(0))
    handlers = ErrorHandlers(processing=retry(5, backoff=timedelta(milliseconds=100)))
    with TopologyTestDriver(topology, error_handlers=handlers) as driver:
        driver.pipe("in", "k", "a", timestamp=10)
        driver.pipe("in", "k", "b", timestamp=11)
        driver.advance_wall_clock(100)
        assert driver.read("out", value=str) == [("k", "a")]
        driver.advance_wall_clock(200)
        assert driver.read("out", value=str) == [("ring", "10"), ("k", "b")]
        assert driver.store("rings").get("n") == 1


def test_after_the_last_attempt_the_next_handler_is_asked() -> None:
    handler = retry(2, backoff=timedelta(milliseconds=100), then=skip)
    topology = ringing("wall_clock", lambda now: now < 200)
    with TopologyTestDriver(topology, error_handlers=ErrorHandlers(processing=handler)) as driver:
        for by in (5, 100, 5, 100):
            driver.advance_wall_clock(by)
        assert driver.read("out", value=str) == [("ring", "210")]
        assert driver.task.skipped_total == 1


def test_a_result_of_a_schedule_that_does_not_encode_is_a_matter_of_production() -> None:
    class Wrong(Ringing):
        def ring(self, now: int) -> None:
            self.context.forward(Record("ring", now, now))

    def build() -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", key=str, value=str)
        stores = key_value_store("rings", str, int)
        stream.process(Wrong, stores=stores).to("out", key=str, value=str)
        return builder.build()

    for handlers in (ErrorHandlers(), ErrorHandlers(production=fail, processing=skip)):
        driver = TopologyTestDriver(build(), error_handlers=handlers)
        with pytest.raises(ProductionError, match="It was produced by a scheduled callback"):
            driver.pipe("in", "k", "a", timestamp=5)
        driver.close()
    with TopologyTestDriver(build(), error_handlers=ErrorHandlers(production=skip)) as driver:
        driver.pipe("in", "k", "a", timestamp=5)
        assert driver.read("out", value=str) == [("k", "a")]
        assert driver.task.skipped_total == 1


def test_a_failing_wall_clock_schedule_stops_a_worker_with_the_same_words() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, declare("wall_clock", lambda now: True)).start().until_running()
    rig.clock.advance(10)
    with pytest.raises(ProcessingError, match="a scheduled callback failed"):
        rig.turn()
    assert outputs(cluster) == []


def test_what_a_wall_clock_schedule_wrote_is_committed_though_no_record_comes() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, declare("wall_clock", lambda now: False)).start().until_running()
    send(cluster, "a")
    rig.commit()
    before = len(cluster.records("app-rings-changelog"))
    rig.clock.advance(100)
    rig.turn(2)
    rig.commit()
    assert len(cluster.records("app-rings-changelog")) > before
