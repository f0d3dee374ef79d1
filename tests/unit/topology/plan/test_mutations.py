"""A function that changes in place what other operators get too is found, and named."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from logstate import (
    Application,
    ErrorHandlers,
    ProcessingError,
    Processor,
    Record,
    StreamsBuilder,
    skip,
)
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topology.plan import mutations
from tests.patience import until


class Order(msgspec.Struct):
    cents: int
    items: list[str] = []


@dataclasses.dataclass
class Cart:
    total: int
    items: list[str]


def mark(value: Any) -> Any:
    value["seen"] = True
    return value


def pair(value: Any) -> tuple[str, Any]:
    return "k", mark(value)


class Marking(Processor[str, Any, str, Any]):
    def process(self, record: Record[str, Any]) -> None:
        mark(record.value)
        self.context.forward(record)


CHANGING: dict[str, Callable[[Any], Any]] = {
    "map_values": lambda s: s.map_values(mark, value=dict, name="x"),
    "map": lambda s: s.map(lambda k, v: pair(v), value=dict, name="x"),
    "flat_map_values": lambda s: s.flat_map_values(lambda v: [mark(v)], value=dict, name="x"),
    "filter": lambda s: s.filter(lambda v: bool(mark(v)), name="x"),
    "peek": lambda s: s.peek(lambda v: mark(v) and None, name="x"),
    "select_key": lambda s: s.select_key(lambda v: str(mark(v)), name="x"),
    "process": lambda s: s.process(Marking, key=str, value=dict, name="x"),
    "below": lambda s: s.filter(lambda v: True, name="x").map_values(mark, value=dict),
    "merge": lambda s: s.merge(s.peek(lambda v: None, name="x")).map_values(mark, value=dict),
}


@pytest.mark.parametrize("operator", CHANGING)
def test_an_operator_that_changes_what_its_sibling_gets_is_named(operator: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict, name="source")
    CHANGING[operator](stream).to("a", key=str)
    stream.to("b", name="sink")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match=r"changed in place a dict of a value") as caught:
            driver.pipe("in", "k", {"n": 1})
        assert caught.value.node == "x"
        assert "'source' also forwards to" in str(caught.value)


@pytest.mark.parametrize("operator", CHANGING)
def test_the_last_operator_may_change_it(operator: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict)
    stream.to("b")
    if operator != "merge":  # which has two branches of its own
        CHANGING[operator](stream).to("a", key=str, value=dict)
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe("in", "k", {"n": 1})
            assert driver.read("b", value=dict) == [("k", {"n": 1})]


def test_operators_that_make_new_values_are_left_alone() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict)
    for n in range(3):
        stream.map_values(lambda v, n=n: {**v, "n": n}, value=dict).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", {"a": [1, {"b": 2}]})
        assert [value["n"] for _, value in driver.read("out", value=dict)] == [0, 1, 2]


@pytest.mark.parametrize("operator", ["filter", "map_values", "to_stream"])
def test_a_table_s_operators_are_compared_too(operator: str) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=dict, store="t")
    if operator == "filter":
        table.filter(lambda v: bool(mark(v)), name="x").to_stream().to("a")
    elif operator == "map_values":
        table.map_values(mark, value=dict, name="x").to_stream().to("a")
    else:
        table.to_stream(name="x").map_values(mark, value=dict).to("a")
    table.to_stream().to("b")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match="changed in place a dict") as caught:
            driver.pipe("in", "k", {"n": 1})
        assert caught.value.node == "x"


def test_an_old_row_that_is_changed_is_found() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=dict, store="t")
    grouped = table.group_by(lambda k, v: ("all", mark(v)), key=str, value=dict, name="g")
    grouped.aggregate(int, lambda k, v, n: n + 1, lambda k, v, n: n - 1, store="n", value=int)
    table.to_change_stream().foreach(lambda c: None)
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match="changed in place a dict"),
    ):
        driver.pipe("in", "k", {"n": 1})


def test_a_handler_may_skip_the_record() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict)
    stream.map_values(mark, value=dict).to("a")
    stream.to("b")
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", {"n": 1})
        assert (driver.skipped_total, driver.outputs) == (1, [])


def test_later_records_are_compared_once_per_commit() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict)
    stream.map_values(lambda v: mark(v) if v["n"] == "late" else v, value=dict).to("a")
    stream.to("b")
    with TopologyTestDriver(builder.build()) as driver:
        for n in range(mutations._AT_START + 50):
            driver.pipe("in", "k", {"n": n})
        with pytest.raises(ProcessingError, match="changed in place"):
            driver.pipe("in", "k", {"n": "late"})


def test_an_application_stops_and_commits_nothing_of_the_record(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=dict)
    stream.map_values(mark, value=dict, name="x").to("a")
    stream.to("b")
    cluster = FakeCluster({"in": 1, "a": 1, "b": 1})
    cluster.produce("in", b"k", b'{"n":1}', timestamp=1)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
    )
    app.start()
    until(lambda: app.state.name == "ERROR", lambda: app.state.name)
    with pytest.raises(ProcessingError, match="the operator 'x', or one below it, changed"):
        app.close()
    assert cluster.committed_offset("app", "in") != 1


def nested() -> Any:
    return {"a": [1, {"b": (2, [3])}], "s": {1}, "o": Order(1, ["x"]), "c": Cart(1, [])}


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(a=2),
        lambda v: v.pop("a"),
        lambda v: v["a"].append(1),
        lambda v: v["a"].__setitem__(0, 9),
        lambda v: v["a"][1].update(b=1),
        lambda v: v["a"][1]["b"][1].clear(),
        lambda v: v["s"].add(2),
        lambda v: v["o"].items.append("y"),
        lambda v: setattr(v["o"], "cents", 2),
        lambda v: setattr(v["c"], "total", 2),
        lambda v: v["c"].items.append("z"),
        lambda v: v.__setitem__("a", True) or v.__setitem__("a", [1]),
    ],
)
def test_a_change_at_any_depth_is_seen(change: Callable[[Any], object]) -> None:
    value = nested()
    before = list(mutations._nested_containers(value))
    check = mutations._mutation_check("p", "c", ["d"])
    check(before)
    change(value)
    with pytest.raises(TypeError, match="changed in place"):
        check(before)


@pytest.mark.parametrize(
    "value",
    [
        None, 1, float("nan"), "text", b"bytes", (1, 2), [float("nan")], {"n": float("nan")},
        frozenset({1}), bytearray(b"x"), OrderedDict(a=1), deque([1]), Order(1), Cart(1, [2]),
        SimpleNamespace(a=[1]), object(), Order, len, [[]] * 3, nested(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_not_changed_is_equal(value: Any) -> None:
    before = list(mutations._nested_containers(value))
    copy.copy(value)
    repr(value)
    mutations._mutation_check("p", "c", ["d"])(before)


def test_a_value_that_contains_itself_is_compared() -> None:
    value: list[Any] = []
    value.append(value)
    mutations._mutation_check("p", "c", ["d"])(list(mutations._nested_containers(value)))


def test_an_attribute_that_is_computed_on_demand_is_no_change() -> None:
    class Lazy:
        def __init__(self) -> None:
            self.n = 1

        @property
        def doubled(self) -> int:
            self._cached = 2 * self.n
            self.computed = True
            return self._cached

    value = Lazy()
    before = list(mutations._nested_containers(value))
    assert value.doubled == 2
    mutations._mutation_check("p", "c", ["d"])(before)
