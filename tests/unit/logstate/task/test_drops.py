"""Every place that drops records: the reason, the node, and by how much the record was late."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import logstate
from logstate.contracts.drops import DropReason
from logstate.contracts.records import TaskId
from logstate.metrics.prometheus import exposition
from logstate.task import drops
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from logstate.topology.graph.nodes import Node
from tests.syntax import syntax
from tests.unit.logstate.task.drop_cases import (
    CASES,
    TUMBLING,
    Case,
    Expected,
    at,
    joined_tables,
    ms,
    windowed,
    words,
)
from tests.unit.logstate.task.task_bench import APPLICATION, topology_of
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of


def expected_of(case: Case) -> list[Expected]:
    return sorted(case.expected)


def class_names(topology: Topology) -> dict[str, str]:
    return {node.name: type(node).__name__ for node in nodes_of(topology)}


def nodes_of(topology: Topology) -> list[Node]:
    subs = (*topology.sub_topologies, *topology.global_sub_topologies)
    return [node for sub in subs for node in sub.nodes]


def encoded(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_driver_names_reason_node_and_lateness(case: Case) -> None:
    topology = case.topology()
    classes = class_names(topology)
    with TopologyTestDriver(topology, application_id=APPLICATION) as driver:
        for topic, key, value, timestamp in case.piped:
            driver.pipe_raw(topic, encoded(key), encoded(value), timestamp)
        found = [(classes[d.node], str(d.reason), d.count, d.late_max_ms) for d in driver.dropped]
    assert sorted(found) == expected_of(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_so_does_the_exporter_of_a_worker_and_the_log(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of({"in": 1, "other": 1, "out": 1})
    rig = WorkerRig(cluster, case.declare, optimization=case.optimization).start()
    classes = class_names(case.topology())
    with caplog.at_level(logging.INFO, "logstate.task.drops"):
        for topic, key, value, timestamp in case.piped:
            cluster.produce(topic, encoded(key), encoded(value), timestamp=timestamp)
            rig.commit()
            rig.commit()
        rig.observer.refresh(rig.observer.tasks)
    text = exposition(rig.observer.metrics, "app").decode()
    found = []
    for labels, count in series(text, "logstate_dropped_records_total"):
        late = dict(series(text, "logstate_dropped_lateness_max_ms")).get(labels, 0)
        if count:
            at = dict(labels)
            found.append((classes[at["node"]], at["reason"], int(count), int(late)))
            (line,) = [
                m for m in caplog.messages if at["node"] in m and f"reason {at['reason']!r}" in m
            ]
            assert line.startswith(f"task {at['task']}: node {at['node']!r}")
            assert " dropped the record at " in line
    assert sorted(found) == expected_of(case)


def series(text: str, name: str) -> Iterator[tuple[frozenset[tuple[str, str]], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                yield frozenset(sample.labels.items()), sample.value


def test_no_place_that_drops_is_missing_from_the_table() -> None:
    """The places in the code, by the file: each asks for a dropper by its reason."""
    root = Path(logstate.__path__[0])
    places = set()
    for path in [*root.parent.glob("topology/operators/*/*.py"), root / "task" / "batch_loop.py"]:
        for node in syntax(path).nodes:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "DropReason":
                places.add((path.stem, DropReason[node.attr].value))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "null_dropper":
                places |= {(path.stem, "null_key"), (path.stem, "null_value")}
    files = {"SourceNode": "batch_loop", "SinkNode": "sink"}
    tried = set()
    for case in CASES:
        nodes = nodes_of(case.topology())
        files |= {type(n).__name__: type(n).__module__.rsplit(".", 1)[1] for n in nodes} | files
        tried |= {(files[name], reason) for name, reason, _, _ in case.expected}
    # Guards: tables have no row without a key, their sources see to it.
    guards = {("table_join", "null_key"), ("foreign_key_right", "null_key")}
    # Reasons of a late stream: without one, these joins process late records, and a store drops
    # what is older than its history.
    modules = ("stream_table_grace", "stream_join_window", "interval_join")
    joins = {(module, "late") for module in modules}
    emitted = joins | {("late_records", "expired")}
    assert places - tried == guards | emitted
    found = chain.from_iterable(case.expected for case in CASES)
    expired = {name for name, reason, _, _ in found if reason == "expired"}
    assert expired == {"TableSourceNode", "ProcessNode", "StreamJoinWindowNode"}


@pytest.mark.parametrize(
    "windows",
    [
        partial(TumblingWindows, size=ms(10)),
        partial(HoppingWindows, size=ms(10), advance=ms(5)),
        partial(SlidingWindows, difference=ms(10)),
        partial(SessionWindows, gap=ms(10)),
    ],
    ids=lambda windows: windows.func.__name__,
)
@given(times=st.tuples(st.integers(100, 200), st.integers(100, 200)))
def test_what_a_grace_lacked_is_what_it_needs(windows: Any, times: tuple[int, int]) -> None:
    def dropped(grace_ms: int) -> list[int]:
        topology = topology_of(windowed(windows(grace=ms(grace_ms))))
        with TopologyTestDriver(topology) as driver:
            for topic, key, value, timestamp in at(*times):
                driver.pipe(topic, key, value, timestamp=timestamp)
            return [one.late_max_ms for one in driver.dropped]

    late = dropped(0)
    if late:
        assert dropped(late[0]) == []
        assert dropped(late[0] - 1) == [1]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == drops.__name__]


def test_a_line_says_where_and_another_comes_after_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with TopologyTestDriver(topology_of(windowed(TUMBLING))) as driver:
        driver.pipe_all("in", [("k", "v", time) for time in (100, 85, 84, 79)])
        (first,) = told(caplog)
        driver.advance_wall_clock(timedelta(minutes=10))
        driver.pipe("in", "k", "v", timestamp=70)
        (node,) = {one.node for one in driver.dropped}
    assert first == (
        f"task 0_0: node {node!r} (count of 'n') dropped the record at 'in', partition 0, offset 1,"
        " timestamp 85: its window had closed: the grace was 8 ms too short."
        " 1 dropped since the last such line,"
        " 1 in all (metric dropped_records_total, reason 'late'; logged at most every 10 minutes,"
        " for all tasks of a worker)"
    )
    assert "offset 4" in told(caplog)[1]
    assert "18 ms too short. 3 dropped since the last such line, 4 in all" in told(caplog)[1]


class Place:
    """The current record of a task."""

    topic, partition, offset, timestamp = "in", 0, 1, 5

    def __init__(self, number: int) -> None:
        self.task_id = TaskId(0, number)
        self.now_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def shown_node(self, name: str) -> str:
        return repr(name)


def test_the_tasks_of_a_worker_share_one_line_with_the_drops_of_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places, lines = [Place(number) for number in range(3)], drops.DropLines()
    tasks = [drops.Drops(place) for place in places]
    for task in tasks:
        task.lines = lines
    droppers = [task.dropper("count", DropReason.LATE) for task in tasks]
    for dropper in droppers:
        for _ in range(4):
            dropper(7)
    tasks[0].dropper("other", DropReason.LATE)(7)
    assert [line[:20] for line in told(caplog)] == ["task 0_0: node 'coun", "task 0_0: node 'othe"]
    for place in places:
        place.now_ms += 600_000
    droppers[2](9)
    droppers[1](9)
    assert "task 0_2: node 'count'" in told(caplog)[2]
    assert "12 dropped since the last such line, 13 in all" in told(caplog)[2]
    assert len(told(caplog)) == 3


def test_what_belongs_to_a_healthy_run_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with TopologyTestDriver(topology_of(joined_tables(history=ms(1_000)))) as driver:
        driver.pipe_all("in", [("k", "v", 100), ("k", "v", 50)])
        assert driver.dropped_total == 1
    assert told(caplog) == []  # of warnings


def test_a_record_that_is_rolled_back_was_not_dropped() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = words(builder)
        stream.group_by_key().windowed_by(TUMBLING).count(store="n")
        stream.map_values(lambda v: v[0], value=str).to("out")  # fails of an empty text

    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        driver.pipe_all("in", [("k", "v", 100), ("k", "v", 85), ("k", "", 60)])
        found = [(one.count, one.late_max_ms) for one in driver.dropped]
        assert (found, driver.skipped_total) == ([(1, 8)], 1)


def test_a_crash_counts_nothing_twice() -> None:
    driver = TopologyTestDriver(topology_of(windowed(TUMBLING)), commit_every=2)
    with driver:
        driver.pipe_all("in", [("k", "v", 100), ("k", "v", 85), ("k", "v", 84)])
        before = driver.dropped
        driver.crash()
        assert [one.count for one in driver.dropped] == [one.count for one in before] == [2]
        assert driver.task.dropped == {DropReason.LATE: 2}


def test_going_back_forgets_a_reason_that_came_up_since() -> None:
    with TopologyTestDriver(topology_of(windowed(TUMBLING))) as driver:
        found = driver.task.drops
        before = found.counts()
        found.dropper("source", DropReason.NEGATIVE_TIMESTAMP)()
        found.go_back_to(before)
        assert not driver.task.dropped
