"""Streams that are read by a pattern."""

from __future__ import annotations

import re
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.plan.pattern_topics import with_matching_topics


def copying(pattern: str = "orders-.*", **options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream(re.compile(pattern), key=str, value=int, **options).to("copy")
    return builder.build()


def test_every_topic_whose_whole_name_matches_is_read() -> None:
    topics = ["orders-eu", "orders-us", "old-orders-eu", "payments"]
    with TopologyTestDriver(copying(), topics=topics) as driver:
        driver.pipe("orders-eu", "a", 1)
        driver.pipe("orders-us", "b", 2)
        assert driver.read("copy", value=int) == [("a", 1), ("b", 2)]
        with pytest.raises(ValueError, match="the topology reads \\['orders-eu', 'orders-us'\\]"):
            driver.pipe("payments", "c", 3)


def test_the_description_shows_the_pattern_as_kafka_streams_does() -> None:
    expected = "Source: KSTREAM-SOURCE-0000000000 (topics: orders-.*)\n"
    assert expected in copying().describe()
    resolved = with_matching_topics(copying(), ["orders-eu"])
    assert resolved.describe() == copying().describe()
    assert "orders-" in copying().to_mermaid()
    assert "orders-" in copying().to_svg()


def test_a_pattern_that_matches_nothing_is_refused_at_start() -> None:
    with pytest.raises(TopologyError, match=r"'orders-\.\*', and none exists\. Topics: 'payments'"):
        TopologyTestDriver(copying(), topics=["payments"])


def test_a_topology_without_patterns_stays_itself() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    topology = builder.build()
    assert with_matching_topics(topology, ["in", "other"]) is topology


def test_equal_patterns_share_one_source() -> None:
    builder = StreamsBuilder()
    for target in ("x", "y"):
        builder.stream(re.compile("in-."), key=str, value=str).to(target)
    with TopologyTestDriver(builder.build(), topics=["in-1", "in-2"]) as driver:
        driver.pipe("in-2", "a", "v")
        assert driver.read("x", value=str) == driver.read("y", value=str) == [("a", "v")]


@pytest.mark.parametrize("pattern_first", [True, False])
def test_a_topic_that_a_pattern_matches_cannot_be_read_by_name_too(pattern_first: bool) -> None:
    builder = StreamsBuilder()
    topics: list[Any] = [re.compile("in-.*"), "in-1"]
    for number, topic in enumerate(topics if pattern_first else reversed(topics)):
        builder.stream(topic, value=str, name=f"source-{number}").to("out", name=f"sink-{number}")
    with pytest.raises(TopologyError, match="read twice, by 'source-0' and 'source-1'"):
        builder.build()


def test_a_topic_that_two_patterns_match_is_refused_at_start() -> None:
    builder = StreamsBuilder()
    for number, pattern in enumerate(("in-.*", ".*-1")):
        stream = builder.stream(re.compile(pattern), value=str, name=f"source-{number}")
        stream.to("out", name=f"sink-{number}")
    topology = builder.build()
    with pytest.raises(TopologyError, match="'in-1' is read twice, by 'source-0' and 'source-1'"):
        with_matching_topics(topology, ["in-1"])
    assert with_matching_topics(topology, ["in-2", "out-1"]).sub_topologies[0].source_topics


def test_a_pattern_comes_alone_and_without_flags() -> None:
    with pytest.raises(TopologyError, match="names of topics or one pattern"):
        StreamsBuilder().stream(re.compile("a"), "b", value=str)
    with pytest.raises(TopologyError, match="a str without flags"):
        StreamsBuilder().stream(re.compile("a", re.IGNORECASE), value=str)


def test_matching_topics_are_co_partitioned_with_what_they_are_joined_with() -> None:
    builder = StreamsBuilder()
    orders = builder.stream(re.compile("orders-.*"), key=str, value=int, name="orders")
    names = builder.table("names", value=str, store="names", name="names")
    orders.join(names, lambda order, name: f"{name}:{order}", name="j").to("out", value=str)
    topology = with_matching_topics(builder.build(), ["orders-eu", "orders-us", "names"])
    (group,) = topology.copartition_groups
    assert sorted(topic.name for topic in group) == ["names", "orders-eu", "orders-us"]
    with TopologyTestDriver(topology) as driver:
        driver.pipe("names", "a", "Ada")
        driver.pipe("orders-us", "a", 7)
        assert driver.read("out", value=str) == [("a", "Ada:7")]
