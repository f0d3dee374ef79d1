"""What a function asks of a store, and cannot have, is that function's failure.

A store that fails itself is no record's fault and no handler's matter. But a query that cannot be
answered now, a store that is read-only or not connected, a read that its kind does not have: that
is the call's, so the record is named and the handler asked.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import (
    ProcessingError,
    StoreAccessError,
    StoreCorruptedError,
    StoreError,
    StoreUnavailableError,
)
from logstate.contracts.records import Record
from logstate.task.error_handlers import ErrorHandlers, retry, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs

Declare = Callable[[StreamsBuilder], object]


def elsewhere(value: str) -> str:
    if value == "bad":
        raise StoreUnavailableError("store 'names': partition 3 is on its way")
    return value


def asked_for_a_query(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).map_values(elsewhere, value=str).to("out")


def asked_at_the_commit(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str).group_by_key()
    table = stream.reduce(lambda old, new: new, store="rows", emit="commit")
    table.to_stream().map_values(elsewhere, value=str).to("out")


def asking(ask: Callable[[Any], object]) -> Declare:
    class Ask(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            if record.value == "bad":
                ask(self.context)
            self.context.forward(record)

    def declare(builder: StreamsBuilder) -> None:
        builder.global_table("names", key=str, value=str, store="names")
        builder.stream("in", key=str, value=str).process(Ask, key=str, value=str).to("out")

    return declare


ASKED: dict[str, tuple[Declare, str]] = {
    "a query": (asked_for_a_query, "partition 3 is on its way"),
    "a query below emit=commit": (asked_at_the_commit, "partition 3 is on its way"),
    "a store that is not connected": (asking(lambda c: c.store("other")), "not connected"),
    "a write to a global store": (asking(lambda c: c.store("names").put("a", "b")), "read-only"),
}
asked = pytest.mark.parametrize(("declare", "found"), ASKED.values(), ids=ASKED)


def driven(declare: Declare, handlers: ErrorHandlers) -> list[Any]:
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        for time, value in enumerate(("a", "bad", "c")):
            driver.pipe("in", value, value, timestamp=time)
        return [value for _, value in driver.read("out", value=str)]


def clustered(declare: Declare, handlers: ErrorHandlers) -> list[Any]:
    cluster = cluster_of({"in": 1, "names": 1, "out": 1})
    rig = WorkerRig(cluster, declare, error_handlers=handlers).start().until_running()
    for time, value in enumerate((b"a", b"bad", b"c")):
        cluster.produce("in", value, value, timestamp=time + 1)
    for _ in range(20):
        rig.clock.advance(100)
        rig.turn()
    return [value for _, value in outputs(cluster)]


both = pytest.mark.parametrize("run", [driven, clustered])


@both
@asked
def test_it_names_the_record_and_the_function(run: Any, declare: Declare, found: str) -> None:
    with pytest.raises(ProcessingError, match="offset 1") as failure:
        run(declare, ErrorHandlers())
    assert found in str(failure.value)
    assert "test_stores_asked_by_functions.py" in str(failure.value.function)
    assert isinstance(failure.value.__cause__, StoreAccessError)


@both
@asked
def test_the_handler_is_asked(run: Any, declare: Declare, found: str) -> None:
    assert run(declare, ErrorHandlers(processing=skip)) == ["a", "c"]


def test_a_query_that_cannot_be_answered_yet_is_tried_again() -> None:
    calls: list[str] = []

    def found(value: str) -> str:
        calls.append(value)
        return elsewhere("bad") if len(calls) < 3 else value

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).map_values(found, value=str).to("out")

    handlers = ErrorHandlers(processing=retry(5, backoff=timedelta(milliseconds=10)))
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "v")
        driver.advance_wall_clock(100)
        driver.advance_wall_clock(100)
        assert driver.read("out", value=str) == [("k", "v")]


def test_a_schedule_that_asks_is_named() -> None:
    class Asks(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.schedule(timedelta(seconds=1), "wall_clock", lambda _: context.store("other"))

        def process(self, record: Record[str, str]) -> None: ...

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Asks, name="asks")

    with (
        TopologyTestDriver(topology_of(declare)) as driver,
        pytest.raises(ProcessingError, match=r"a scheduled callback failed.*node 'asks'"),
    ):
        driver.advance_wall_clock(timedelta(seconds=1))
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        driver.advance_wall_clock(timedelta(seconds=1))
        assert driver.task.skipped_total == 1


@pytest.mark.parametrize("error", [StoreError("disk full"), StoreCorruptedError("a torn file")])
def test_a_store_that_fails_is_no_record_s_fault(error: StoreError) -> None:
    def fail(value: str) -> str:
        raise error

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).map_values(fail, value=str).to("out")

    handlers = ErrorHandlers(processing=skip)
    with (
        TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver,
        pytest.raises(type(error), match=str(error)),
    ):
        driver.pipe("in", "k", "v")
