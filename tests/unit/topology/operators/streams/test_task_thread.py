"""A processor's context and its stores are used by the thread that runs the task, and by no other.

Every call is tried from a thread of the processor's own, with the error unseen by the processor: a
call that would have changed something stops the task before its next commit.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    ErrorHandlers,
    KeyTimers,
    ProcessingError,
    Processor,
    Record,
    StreamsBuilder,
    ValueTransformer,
    WrongThreadError,
    key_value_store,
    skip,
    timer_store,
)
from logstate.testing import FakeCluster, MockProcessorContext, TopologyTestDriver
from logstate.topology import ProcessorContext
from tests.patience import until
from tests.unit.topology.operators.streams.calls_elsewhere import (
    Call,
    Elsewhere,
    calling,
    topology_of,
)

SECOND = timedelta(seconds=1)
COUNTS = key_value_store("st", str, str)


# --- what is refused ------------------------------------------------------------------------------


def test_a_forward_from_another_thread_names_threads_node_function_and_remedy() -> None:
    failed: list[Exception] = []
    made = calling(lambda context: context.forward(Record("k", "v", 1)), failed)
    wanted = (
        r"a call from another thread was refused.* Processor 'enrich' called forward\(\) of its"
        r" context from thread 'pool-1' \(\d+\), in <lambda> at .*test_task_thread\.py:\d+, but"
        r" task 0_0 runs on thread 'MainThread' \(\d+\).*queue\.Queue"
    )
    with (
        TopologyTestDriver(topology_of(made)) as driver,
        pytest.raises(ProcessingError, match=wanted) as stopped,
    ):
        driver.pipe("in", "k", "call")
    (error,) = failed
    assert isinstance(error, WrongThreadError)
    assert isinstance(error, RuntimeError)
    assert stopped.value.__cause__ is error
    assert (error.node, error.task) == (stopped.value.node, stopped.value.task) == ("enrich", "0_0")


@pytest.mark.parametrize(
    "call",
    [
        lambda context: context.forward(Record("k", "v", 1)),
        lambda context: context.forward("no record"),
        lambda context: context.commit(),
        lambda context: context.schedule(SECOND, "stream_time", print),
    ],
)
def test_what_changes_something_stops_the_task_and_nothing_is_committed(call: Call) -> None:
    failed: list[Exception] = []
    with TopologyTestDriver(topology_of(calling(call, failed)), commit_every=10) as driver:
        for value in ("call", "v", "v"):  # and it stays so
            with pytest.raises(ProcessingError, match="another thread"):
                driver.pipe("in", "k", value)
        assert driver.outputs == []
    assert [type(error) for error in failed] == [WrongThreadError]


@pytest.mark.parametrize(
    "call",
    [
        lambda context: context.store("st"),
        lambda context: context.record_metadata(),
        lambda context: context.current_stream_time_ms(),
    ],
)
def test_the_context_tells_another_thread_nothing_of_the_record(call: Call) -> None:
    failed: list[Exception] = []
    with TopologyTestDriver(topology_of(calling(call, failed), COUNTS)) as driver:
        driver.pipe("in", "k", "call")
    assert [type(error) for error in failed] == [WrongThreadError]


def test_what_never_changes_is_told_to_every_thread() -> None:
    failed: list[Exception] = []
    seen: list[object] = []

    def check(context: ProcessorContext) -> None:
        seen.extend([context.application_id, str(context.task_id), context.partition])
        seen.append(context.current_system_time_ms())
        context.metrics.counter("seen_total", "Seen.").add(1)

    with TopologyTestDriver(topology_of(calling(check, failed))) as driver:
        driver.pipe("in", "k", "call")
    assert (seen, failed) == (["app", "0_0", 0, 0], [])


def test_a_schedule_is_not_cancelled_by_another_thread() -> None:
    failed: list[Exception] = []
    calls: list[int] = []
    made: list[Any] = []

    class Scheduling(calling(lambda _: made[0].cancel(), failed)):  # type: ignore[misc]
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            made.append(context.schedule(SECOND, "stream_time", calls.append))

    with (
        TopologyTestDriver(topology_of(Scheduling)) as driver,
        pytest.raises(ProcessingError, match=r"cancel\(\) of a schedule from thread 'pool-1'"),
    ):
        driver.pipe("in", "k", "call", timestamp=1)
    assert [type(error) for error in failed] == [WrongThreadError]


@pytest.mark.parametrize("method", ["set", "cancel"])
def test_a_timer_of_a_key_is_not_changed_by_another_thread(method: str) -> None:
    failed: list[Exception] = []

    class Timing(calling(lambda _: getattr(Timing.timers, method)("k", 5), failed)):  # type: ignore[misc]
        timers: KeyTimers[str]

        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            Timing.timers = KeyTimers(context, "timers", lambda key, at_ms: None)

    with (
        TopologyTestDriver(topology_of(Timing, timer_store("timers", str))) as driver,
        pytest.raises(ProcessingError, match="of store 'timers' from thread 'pool-1'"),
    ):
        driver.pipe("in", "k", "call")
    assert [type(error) for error in failed] == [WrongThreadError]


def test_a_transformer_of_a_table_is_checked_too() -> None:
    failed: list[Exception] = []

    class Transform(ValueTransformer[str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.store("st")

        def transform(self, key: str, value: str | None) -> str | None:
            thread = threading.Thread(target=self.work, name="pool-1")
            thread.start()
            thread.join()
            return value

        def work(self) -> None:
            try:
                self.store.put("k", "v")
            except WrongThreadError as error:
                failed.append(error)

    builder = StreamsBuilder()
    table = builder.table("in", value=str)
    table.transform_values(Transform, stores=COUNTS, value=str).to_stream().to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match="another thread"),
    ):
        driver.pipe("in", "k", "v")
    assert len(failed) == 1


def test_no_handler_is_asked_about_a_call_of_another_thread() -> None:
    failed: list[Exception] = []
    made = calling(lambda context: context.forward(Record("k", "v", 1)), failed)
    handlers = ErrorHandlers(processing=skip)
    with (
        TopologyTestDriver(topology_of(made), error_handlers=handlers) as driver,
        pytest.raises(ProcessingError, match="no handler is called"),
    ):
        driver.pipe("in", "k", "call")


def test_the_error_that_reaches_process_is_the_record_s() -> None:
    class Waiting(Elsewhere):
        failed: list[Exception] = []  # noqa: RUF012
        call = staticmethod(lambda context: context.store("st").get("k"))

        def process(self, record: Record[str, str]) -> None:
            super().process(record)
            raise self.failed.pop()

    handlers = ErrorHandlers(processing=skip)
    topology = topology_of(Waiting, COUNTS)
    with TopologyTestDriver(topology, error_handlers=handlers) as driver:
        driver.pipe("in", "k", "call")
        assert driver.skipped_total == 1


# --- what is allowed ------------------------------------------------------------------------------


def test_the_thread_that_ran_the_task_may_use_the_context_between_two_records() -> None:
    kept: list[Any] = []

    class Keeping(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            kept.append(context.store("st"))

        def process(self, record: Record[str, str]) -> None:
            kept[0].put(record.key, record.value)

    with TopologyTestDriver(topology_of(Keeping, COUNTS)) as driver:
        driver.pipe("in", "k", "v")
        assert kept[0].get("k") == "v"


def test_a_driver_may_be_used_by_one_thread_after_another() -> None:
    made = calling(lambda context: None, [])
    with TopologyTestDriver(topology_of(made)) as driver:
        driver.pipe("in", "a", "v")
        thread = threading.Thread(target=driver.pipe, args=("in", "b", "v"))
        thread.start()
        thread.join()
        driver.pipe("in", "c", "v")
        assert [key for key, _ in driver.read("out", value=str)] == ["a", "b", "c"]


def test_two_threads_do_not_run_a_task_at_the_same_time() -> None:
    drivers: list[TopologyTestDriver] = []
    failed: list[Exception] = []
    made = calling(lambda context: drivers[0].pipe("in", "k", "v"), failed)
    with TopologyTestDriver(topology_of(made)) as driver:
        drivers.append(driver)
        driver.pipe("in", "k", "call")
    (error,) = failed
    assert "at the same time" in str(error)


@pytest.mark.parametrize(
    "call",
    [
        lambda context: context.forward(Record("k", "v", 1)),
        lambda context: context.store("st"),
        lambda context: context.schedule(SECOND, "stream_time", print),
        lambda context: context.commit(),
        lambda context: context.record_metadata(),
        lambda context: context.current_stream_time_ms(),
    ],
)
def test_the_mock_context_refuses_the_same(call: Call) -> None:
    context = MockProcessorContext(stores=COUNTS)
    call(context)
    made = calling(call, [])()
    made.init(context)
    made.process(Record("k", "call", 1))
    assert [type(error) for error in made.failed] == [WrongThreadError]


# --- an application -------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", ["forward", "put"])
def test_an_application_stops_before_it_commits_a_record_whose_result_came_from_another_thread(
    writes: str, tmp_path: Path
) -> None:
    failed: list[Exception] = []

    def late(context: ProcessorContext) -> None:
        if writes == "forward":
            context.forward(Record("k", "v", 1))
        else:
            kept[0].put("k", "v")

    kept: list[Any] = []

    class Late(calling(late, failed)):  # type: ignore[misc]
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            kept.append(context.store("st"))

    cluster = FakeCluster({"in": 1, "out": 1})
    for value in (b"a", b"b", b"call"):
        cluster.produce("in", b"k", value, timestamp=1)
    app = Application(
        topology_of(Late, COUNTS),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
    )
    app.start()
    until(lambda: app.state.name == "ERROR", lambda: app.state.name)
    with pytest.raises(ProcessingError, match="a call from another thread was refused"):
        app.close()
    assert cluster.committed_offset("app", "in") != 3
    assert [type(error) for error in failed] == [WrongThreadError]
