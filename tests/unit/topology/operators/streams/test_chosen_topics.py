"""Choosers of topics: what they are told of the record that is on its way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    Processor,
    Record,
    RecordContext,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
)
from logstate.testing import FakeCluster
from logstate.topology import until_window_closes
from logstate.topology.plan.plan import Topology
from tests import patience

HEADERS = [("tenant", b"shop")]


class Asked:
    """A chooser that remembers what it was told."""

    def __init__(self) -> None:
        self.contexts: list[RecordContext] = []

    def __call__(self, key: Any, value: Any, context: RecordContext) -> str:
        self.contexts.append(context)
        return "out"


def routed(choose: Callable[..., str]) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to(choose)
    return builder.build()


def test_a_chooser_sees_time_headers_and_place_in_the_driver() -> None:
    asked = Asked()
    with TopologyTestDriver(routed(asked)) as driver:
        driver.pipe("in", "a", "x", timestamp=5)
        driver.pipe("in", "b", "y", timestamp=7, headers=HEADERS)
    assert asked.contexts == [
        RecordContext("in", 0, 0, 5, None),
        RecordContext("in", 0, 1, 7, HEADERS),
    ]


def test_a_chooser_sees_time_headers_and_place_on_a_cluster(tmp_path: Path) -> None:
    asked = Asked()
    cluster = FakeCluster({"in": 2, "out": 1})
    cluster.produce("in", b"a", b"x", partition=1, timestamp=5)
    cluster.produce("in", b"b", b"y", partition=1, timestamp=7, headers=HEADERS)
    with Application(
        routed(asked),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    ):
        cluster.wait_for_records("out", 2, patience.PATIENCE_S)
    assert asked.contexts == [
        RecordContext("in", 1, 0, 5, None),
        RecordContext("in", 1, 1, 7, HEADERS),
    ]


class Late(Processor[str, str, str, str]):
    """Forwards with a time and headers of its own."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record._replace(timestamp=99, headers=[("by", b"me")]))


def test_time_and_headers_are_those_that_are_written() -> None:
    asked = Asked()
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Late, key=str, value=str).to(asked)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=5, headers=HEADERS)
        (written,) = driver.outputs
    assert asked.contexts == [RecordContext("in", 0, 0, 99, [("by", b"me")])]
    assert (written.timestamp, written.headers) == (99, [("by", b"me")])


class Ticking(Processor[str, str, str, str]):
    """Forwards from a schedule."""

    def init(self, context: Any) -> None:
        context.schedule(
            timedelta(seconds=1),
            "wall_clock",
            lambda now: context.forward(Record("k", "tick", now, HEADERS)),
        )

    def process(self, record: Record[str, str]) -> None: ...


def test_a_scheduled_record_comes_from_no_topic_and_has_time_and_headers() -> None:
    asked = Asked()
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Ticking, key=str, value=str).to(asked)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=5)
        driver.advance_wall_clock(timedelta(seconds=1))
    assert asked.contexts == [RecordContext(None, -1, -1, 1_000, HEADERS)]


def test_a_final_result_has_the_context_of_the_record_that_caused_it() -> None:
    asked = Asked()
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(seconds=1))
    counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count(store="n")
    final = counts.suppress(until_window_closes(), name="final")
    final.to_stream(lambda window, _: window.key, key=str).to(asked, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=5, headers=HEADERS)
        driver.pipe("in", "b", "y", timestamp=2_000)
    assert asked.contexts == [RecordContext("in", 0, 0, 5, HEADERS)]


def test_results_held_for_a_commit_have_the_context_of_their_record() -> None:
    asked = Asked()
    builder = StreamsBuilder()
    counts = builder.stream("in", value=str).group_by_key().count(store="n", emit="commit")
    counts.to_stream().to(asked, value=int)
    with TopologyTestDriver(builder.build(), commit_every=3) as driver:
        driver.pipe_all("in", [("a", "x", 5), ("b", "y", 6), ("a", "z", 7)])
    assert asked.contexts == [
        RecordContext("in", 0, 1, 6, None),
        RecordContext("in", 0, 2, 7, None),
    ]


def by_key(key: str, value: str) -> str:
    return f"of-{key}"


def by_key_or_else(key: str, value: str, context: RecordContext | None = None) -> str:
    return f"of-{key}" if context is None else f"at-{context.timestamp}"


def at_time(*args: Any) -> str:
    return f"at-{args[2].timestamp}"


@pytest.mark.parametrize(
    ("choose", "topic"), [(by_key, "of-a"), (by_key_or_else, "at-5"), (at_time, "at-5")]
)
def test_a_chooser_is_given_the_context_where_it_can_take_it(
    choose: Callable[..., str], topic: str
) -> None:
    with TopologyTestDriver(routed(choose)) as driver:
        driver.pipe("in", "a", "x", timestamp=5)
        assert driver.produced_topics == {topic}


def test_a_chooser_keeps_its_name_in_the_description() -> None:
    assert "extractor class: by_key)" in str(routed(by_key).describe())
