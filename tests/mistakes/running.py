"""Mistakes that show when records come."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import Any

from logstate import (
    Application,
    ErrorHandlers,
    Materialized,
    Processor,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
)
from logstate.contracts.errors import FencedError, StoreUnavailableError
from logstate.task.error_handlers import Decision, dead_letter
from logstate.testing import FakeCluster, Fault
from logstate.topology import KeyTimers, KStream, timer_store
from logstate.worker.watchdog import Watchdog
from tests.mistakes.mistake import mistake
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

HERE = "tests/mistakes/running.py"


def driven(declare: Any, *records: tuple[Any, Any]) -> None:
    builder = StreamsBuilder()
    declare(builder.stream("in", value=str))
    with TopologyTestDriver(builder.build()) as driver:
        for number, (key, value) in enumerate(records or [("k", "v")]):
            driver.pipe("in", key, value, timestamp=number)


async def looked_up(value: str) -> bool:
    return bool(value)


def asks(value: str) -> Any:
    return looked_up(value)


@mistake("topic 'in'", "offset 0", "predicate", f"asks at {HERE}", "nothing has run")
def a_predicate_hides_a_coroutine() -> None:
    driven(lambda s: s.filter(asks))


@mistake("topic 'in'", "offset 0", "action", "nothing has run", "plain function")
def an_action_hides_a_coroutine() -> None:
    driven(lambda s: s.peek(asks))


@mistake("aggregator", HERE, "returned None", "deletes=True", "offset 0")
def an_aggregator_returns_none_now_and_then() -> None:
    driven(
        lambda s: s.group_by_key().aggregate(
            int, lambda total, v: None if v else total, store=Materialized("s"), value=int
        )
    )


@mistake("topic 'in'", "partition 0", "offset 0", "ZeroDivisionError", HERE, "correct the function")
def a_function_raises() -> None:
    driven(lambda s: s.map_values(lambda value: 1 // 0, value=int))


@mistake("value of a result cannot be encoded", "topic 'out'", "offset 0", "(len)", "declared type")
def a_result_has_another_type_than_declared() -> None:
    driven(lambda s: s.map_values(len, value=str).to("out"))


def decoded_as_int(builder: StreamsBuilder) -> KStream[str, int]:
    return builder.stream("in", value=int)


@mistake("does not decode", "topic 'in'", "offset 0", "another format")
def a_topic_is_read_with_another_type() -> None:
    builder = StreamsBuilder()
    decoded_as_int(builder).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"k", b"three", 0, None)


class Backwards(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(record._replace(timestamp=-5))


@mistake("timestamp -5", "not negative", "offset 0")
def a_processor_forwards_a_negative_time() -> None:
    driven(lambda s: s.process(Backwards).to("out", key=str, value=str))


class Lost(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(record, "nobody")


@mistake("no child 'nobody'", "its children")
def a_processor_forwards_to_nobody() -> None:
    driven(lambda s: s.process(Lost).to("out", key=str, value=str))


class Eager(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        context.schedule(timedelta(seconds=1), "wallclock", print)

    def process(self, record: Any) -> None:
        pass


@mistake("kind must be", "'wall_clock'", "'wallclock'")
def a_schedule_is_of_no_kind() -> None:
    driven(lambda s: s.process(Eager))


@mistake("is a timestamped_key_value store", "has no fetch()", "get")
def a_store_is_read_like_another_kind() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.store("s").fetch("k")


@mistake("no store 'other'", "s")
def the_driver_is_asked_for_a_store_that_is_not_there() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.store("other")


class Waiting:
    """A function that waits for somebody who does not answer, on a manual clock."""

    def __init__(self) -> None:
        self.cluster = cluster_of({"in": 1, "out": 1})
        self.rig = WorkerRig(self.cluster, self.declare)
        self.watch = Watchdog(
            self.cluster.probe(), self.rig.clock, self.rig.observer, self.rig.worker
        )

    def declare(self, builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).filter(self.is_known).to("out")

    def is_known(self, value: str) -> bool:
        for _ in range(15):
            self.watch.look_at_worker()
            self.rig.clock.advance(1_000)
        self.cluster.tick()
        return bool(value)

    def run(self, *faults: Fault) -> None:
        self.rig.start().until_running()
        send(self.cluster, "k")
        for fault in faults:
            self.cluster.faults.add(fault)
        self.rig.turn(2)
        self.rig.stop()


@mistake("running for", f"is_known at {HERE}", "topic 'in'", "offset 0", "Give the call a timeout")
def a_function_waits_without_a_time_out() -> None:
    Waiting().run()


@mistake("busy for 15 s", f"is_known at {HERE}", "transaction.timeout.ms", "The brokers work")
def a_function_takes_longer_than_the_transaction() -> None:
    Waiting().run(Fault("send_offsets", FencedError("an old epoch")))


@mistake("2 final results", "store 'n'", "expired", "offset 2", "retention=", "late-records.md")
def a_store_keeps_final_results_too_short() -> None:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(milliseconds=10))
    clicks = builder.stream("in", value=str).group_by_key().windowed_by(windows)
    clicks.count(store="n", emit="close").to_stream(lambda w, n: w.key).to("out", key=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "v", 1), ("b", "v", 2), ("a", "v", 1_000)])


@mistake("late records", "'app-words-repartition'", "is not in order", "grace", "late-records.md")
def a_backlog_meets_a_small_grace() -> None:
    def counted(builder: StreamsBuilder) -> None:
        words = builder.stream("in", value=str).group_by(lambda k, v: v, key=str, name="words")
        words.windowed_by(TumblingWindows(size=timedelta(minutes=1))).count(store="n")

    cluster = cluster_of({"in": 2})
    rig = WorkerRig(cluster, counted).start().until_running()
    for partition in (0, 1):
        for minute in range(60):
            time_ms = minute * 60_000
            cluster.produce("in", b"k", b"word", partition=partition, timestamp=time_ms)
    for _ in range(100):
        rig.turn()
        rig.clock.advance(200)
    rig.stop()


def repeated(value: str) -> str:
    return value * 1_000


@mistake("'in', partition 0, offset 1", "4001 bytes to 'out'", f"repeated at {HERE}", "production=")
def a_result_is_larger_than_its_topic_allows() -> None:
    cluster = cluster_of({"in": 1})
    cluster.create_topic("out", 1, {"max.message.bytes": "2000"})
    rig = WorkerRig(
        cluster, lambda b: b.stream("in", value=str).map_values(repeated, value=str).to("out")
    )
    rig.start().until_running()
    for value in (b"v", b"long"):
        cluster.produce("in", b"k", value, timestamp=1)
    for _ in range(60):
        rig.clock.advance(100)
        rig.turn()


@mistake("store 't'", "keys from -5 to 5", "no keys are between them", "range(0, upper)")
def a_range_crosses_zero() -> None:
    builder = StreamsBuilder()
    builder.table("in", key=int, value=str, store="t")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", -1, "x", timestamp=1)
        list(driver.store("t").range(-5, 5))


def answers_in_words(record: Any) -> Decision:
    return Decision("skip")  # type: ignore[arg-type]


@mistake("processing handler", HERE, "got 'skip'", "Write Decision(Action.SKIP)", "offset 0")
def a_decision_is_a_word() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(int, value=int).to("out")
    handlers = ErrorHandlers(processing=answers_in_words)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "no number")


@mistake(
    "would come back here and fail forever", "offset=0", "topic that the application does not read"
)
def dead_letters_go_to_the_topic_that_they_come_from() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int).to("out")
    handlers = ErrorHandlers(deserialization=dead_letter, dead_letter_topic="in")
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe_raw("in", b"k", b"no number", 1)


async def remind(key: str, at_ms: int) -> None:
    """Writes a letter, if it is awaited."""


class Reminds(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        self.timers = KeyTimers(context, "timers", remind)

    def process(self, record: Any) -> None:
        self.timers.set(record.key, 5)


@mistake("the timer callback", f"remind at {HERE}", "async def", "never run")
def a_timer_calls_a_coroutine_function() -> None:
    timers = timer_store("timers", str)
    driven(lambda s: s.process(Reminds, stores=timers, key=str, value=str, name="reminds"))


def asks_a_query(value: str) -> str:
    raise StoreUnavailableError("store 'names': partition 3 is on its way to another instance")


@mistake("topic 'in'", "offset 0", f"{HERE}", "partition 3 is on its way")
def a_function_asks_a_store_that_does_not_answer() -> None:
    driven(lambda s: s.map_values(asks_a_query, value=str))


@mistake(
    "topic chooser",
    "'app-n-changelog'",
    "name of an internal topic",
    "offset 0",
    "Choose another topic name",
)
def a_chooser_names_a_changelog() -> None:
    driven(lambda s: s.to(lambda key, value: "app-n-changelog"))


class Waits:
    """A function that waits for the application that calls it."""

    def __init__(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", value=str).map_values(self.wait, value=str).to("out")
        self.cluster = FakeCluster({"in": 1, "out": 1})
        self.app = Application(
            builder.build(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tempfile.mkdtemp(),
            cluster=self.cluster,
        )

    def wait(self, value: str) -> str:
        self.app.wait_until_running()
        return value

    def run(self) -> None:
        self.cluster.produce("in", b"k", b"v", timestamp=1)
        self.app.run(handle_signals=False)


@mistake("called in the thread that runs it", "offset 0", HERE, "Wait in another thread")
def a_function_waits_for_its_own_application() -> None:
    Waits().run()
