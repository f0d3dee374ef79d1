"""The prefix of an environment: before every topic of the user, and no other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.contracts.records import RecordContext
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.plan.pattern_topics import patterns_of, with_matching_topics
from logstate.topology.plan.topic_prefix import prefixed_pattern


def joining() -> Topology:
    builder = StreamsBuilder()
    names = builder.table("names", key=str, value=str, store="names", name="names")
    rates = builder.global_table("rates", key=str, value=str, store="rates")
    orders = builder.stream("orders", "returns", key=str, value=str, name="orders")
    joined = orders.join(names, lambda order, name: f"{order} of {name}", name="j")
    priced = joined.join(
        rates, lambda value, rate: f"{value} at {rate}", key_mapper=lambda key, value: "EUR"
    )
    priced.to("out", value=str)
    orders.group_by(lambda key, value: value, key=str, name="by-value").count(store="counts")
    return builder.build(optimization="all")


def test_an_empty_prefix_gives_the_topology_itself() -> None:
    topology = joining()
    assert topology.with_topic_prefix("") is topology


def test_sources_sinks_and_global_tables_have_the_prefix_and_internal_topics_do_not() -> None:
    topology = joining()
    before = topology.describe()
    staging = topology.with_topic_prefix("staging.")
    read = {ref.name for sub in staging.sub_topologies for ref in sub.source_topics}
    assert read == {
        "staging.orders",
        "staging.returns",
        "staging.names",
        "by-value-repartition",
    }
    written = {ref for sub in staging.sub_topologies for ref in sub.sink_topics}
    assert {ref.name for ref in written} == {"staging.out", "by-value-repartition"}
    (rates,) = staging.global_sub_topologies
    assert [ref.name for ref in rates.source_topics] == ["staging.rates"]
    assert topology.describe() == before
    assert topology.sub_topologies[0].source_topics != staging.sub_topologies[0].source_topics


def test_co_partitioned_topics_have_the_prefix() -> None:
    (group,) = joining().with_topic_prefix("staging.").copartition_groups
    assert {ref.name for ref in group} == {"staging.orders", "staging.returns", "staging.names"}


def test_a_store_that_is_kept_in_its_source_topic_is_kept_in_that_of_the_environment() -> None:
    staging = joining().with_topic_prefix("staging.")
    assert staging.stores["names"].source_topic == "staging.names"
    assert staging.global_stores["rates"].source_topic == "staging.rates"
    assert staging.stores["counts"].source_topic is None
    every = [*staging.sub_topologies, *staging.global_sub_topologies]
    specs = {spec.name: spec.source_topic for sub in every for spec in sub.stores}
    assert specs == {"names": "staging.names", "counts": None, "rates": "staging.rates"}


def test_the_description_is_that_of_a_topology_declared_with_these_names() -> None:
    def declared(prefix: str) -> Topology:
        builder = StreamsBuilder()
        builder.global_table(f"{prefix}rates", key=str, value=str, store="rates")
        several = [f"{prefix}{name}" for name in ("a", "b", "c", "d")]
        stream = builder.stream(*several, key=str, value=str)
        stream.group_by(lambda key, value: value, key=str, name="by").count(store="counts")
        stream.to(f"{prefix}out")
        builder.stream(re.compile(re.escape(prefix) + "(?:x-.*)"), value=str).to(str)
        return builder.build()

    builder = StreamsBuilder()
    builder.global_table("rates", key=str, value=str, store="rates")
    stream = builder.stream("a", "b", "c", "d", key=str, value=str)
    stream.group_by(lambda key, value: value, key=str, name="by").count(store="counts")
    stream.to("out")
    builder.stream(re.compile("x-.*"), value=str).to(str)
    prefixed = builder.build().with_topic_prefix("eu-")
    expected = declared("eu-")
    assert prefixed.describe() == expected.describe()
    assert prefixed.description() == expected.description()
    assert prefixed.to_mermaid() == expected.to_mermaid()
    assert prefixed.operator_labels == expected.operator_labels


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders-.*|payments", ["eu.orders-1", "eu.payments"], ["eu-orders-1", "orders-1"]),
        (".*", ["eu.a"], ["eua", "us.a", "x.eu.a"]),
        ("(?i)orders", ["eu.Orders"], ["EU.orders"]),
        ("(?x) orders  # of the shop", ["eu.orders"], ["eu.orders of the shop", "orders"]),
        (r"(a)b\1", ["eu.aba"], ["eu.abb"]),
    ],
)
def test_a_pattern_matches_what_it_matches_after_the_prefix_and_nothing_else(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    found = prefixed_pattern("eu.", pattern)
    assert [name for name in (*matching, *others) if re.fullmatch(found, name)] == matching


def test_a_source_by_pattern_reads_the_topics_of_its_environment() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("orders-.*"), key=str, value=str).to("out")
    staging = builder.build().with_topic_prefix("staging.")
    assert [ref.is_pattern for source in patterns_of(staging) for ref in source.topics] == [True]
    topics = ["orders-eu", "staging.orders-eu", "stagingxorders-eu"]
    resolved = with_matching_topics(staging, topics)
    assert [ref.name for ref in resolved.sub_topologies[0].source_topics] == ["staging.orders-eu"]


def choosing(choose: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to(choose)
    return builder.build().with_topic_prefix("staging.")


def test_a_topic_that_a_function_chooses_has_the_prefix() -> None:
    with TopologyTestDriver(choosing(lambda key, value: f"of-{key}")) as driver:
        for key in ("ada", "bob", "ada"):
            driver.pipe("staging.in", key, "v")
        assert driver.read("staging.of-ada", value=str) == [("ada", "v"), ("ada", "v")]
        assert driver.read("staging.of-bob", value=str) == [("bob", "v")]


def test_the_context_of_a_chooser_has_the_name_on_the_brokers() -> None:
    seen: list[str | None] = []

    def choose(key: Any, value: Any, context: RecordContext) -> str:
        seen.append(context.topic)
        return "out"

    with TopologyTestDriver(choosing(choose)) as driver:
        driver.pipe("staging.in", "a", "v")
        assert seen == ["staging.in"]
        assert driver.read("staging.out", value=str) == [("a", "v")]


def test_a_chosen_name_that_is_too_long_with_the_prefix_is_named_in_the_error() -> None:
    with (
        TopologyTestDriver(choosing(lambda key, value: "t" * 245)) as driver,
        pytest.raises(ProcessingError, match=r"the prefix 'staging\.' make the topic 'staging\.tt"),
    ):
        driver.pipe("staging.in", "a", "v")


def test_the_internal_topic_of_the_application_cannot_be_chosen_by_the_prefix() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to(lambda key, value: value)
    topology = builder.build().with_topic_prefix("app-")
    with (
        TopologyTestDriver(topology, application_id="app") as driver,
        pytest.raises(ProcessingError, match="'app-counts-changelog', which has the name of an in"),
    ):
        driver.pipe("app-in", "a", "counts-changelog")


@pytest.mark.parametrize("prefix", ["sta ging.", "über", "p" * 248, "a/"])
def test_a_prefix_that_makes_invalid_names_is_refused_with_the_line(prefix: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str, name="source").to("out")
    with pytest.raises(TopologyError, match="topic 'in' has no valid name: Kafka's have 1") as info:
        builder.build().with_topic_prefix(prefix)
    assert "test_topic_prefix.py" in str(info.value)


def test_prefixes_are_put_before_each_other() -> None:
    topology = choosing(lambda key, value: "out").with_topic_prefix("eu.")
    with TopologyTestDriver(topology) as driver:
        driver.pipe("eu.staging.in", "a", "v")
        assert driver.read("eu.staging.out", value=str) == [("a", "v")]
