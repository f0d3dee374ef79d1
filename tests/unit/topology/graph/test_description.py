"""`describe()`: text, data, and the generated names and numbers of Kafka Streams."""

from __future__ import annotations

from logstate.topology import StreamsBuilder, Topology


def word_count() -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("streams-plaintext-input", value=str)
    words = lines.flat_map_values(str.split, value=str)
    counts = words.group_by(lambda word: word, key=str).count(store="counts-store")
    counts.to_stream().to("streams-wordcount-output")
    return builder.build()


def test_unnamed_operators_have_kafka_streams_names_and_numbers() -> None:
    assert (
        word_count().describe()
        == """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [streams-plaintext-input])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-store-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-store-repartition-filter (stores: [])
      --> counts-store-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-store-repartition-sink (topic: counts-store-repartition)
      <-- counts-store-repartition-filter

  Sub-topology: 1
    Source: counts-store-repartition-source (topics: [counts-store-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts-store])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-store-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: streams-wordcount-output)
      <-- KTABLE-TOSTREAM-0000000007

"""
    )


def test_named_operators_burn_numbers_too() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int, name="in")
    stream.filter(bool, name="f").map_values(int, value=int).to("out")
    nodes = builder.build().sub_topologies[0].nodes
    assert [node.name for node in nodes] == [
        "in",
        "f",
        "KSTREAM-MAPVALUES-0000000002",
        "KSTREAM-SINK-0000000003",
    ]


def test_a_global_store_has_a_number_and_no_tasks() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int, name="in").to("out", name="sink")
    builder.global_table("g", value=int, store="g-store", name="tab")
    topology = builder.build()
    assert [part.id for part in topology.sub_topologies] == [0]
    (part,) = topology.global_sub_topologies
    assert (part.id, part.is_global, [spec.name for spec in part.stores]) == (1, True, ["g-store"])
    assert part.stores[0].source_topic == "g"
    assert not part.stores[0].is_logged
    assert topology.describe().endswith(
        "  Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: tab-source (topics: [g])\n"
        "      --> tab\n"
        "    Processor: tab (stores: [g-store])\n"
        "      --> none\n"
        "      <-- tab-source\n"
    )


def test_the_description_is_data_too() -> None:
    first, second = word_count().description().sub_topologies
    assert [node.kind for node in first.nodes] == ["source", *["processor"] * 3, "sink"]
    assert first.nodes[0].topics == ("streams-plaintext-input",)
    assert first.nodes[-1].topic == "counts-store-repartition"
    assert second.nodes[1].stores == ("counts-store",)
    assert second.nodes[1].successors == ("KTABLE-TOSTREAM-0000000007",)


def test_the_plan_knows_topics_and_stores() -> None:
    topology = word_count()
    first, second = topology.sub_topologies
    assert [ref.name for ref in first.source_topics] == ["streams-plaintext-input"]
    assert [(ref.name, ref.is_internal) for ref in first.sink_topics] == [
        ("counts-store-repartition", True)
    ]
    assert [spec.name for spec in second.stores] == ["counts-store"]
    assert list(topology.stores) == ["counts-store"]
    assert [topic.kind for topic in topology.internal_topics] == ["repartition"]


def test_a_chosen_topic_is_described_by_its_function() -> None:
    def by_key(key: object, value: object, place: object) -> str:
        return "t"

    builder = StreamsBuilder()
    builder.stream("in", value=int, name="in").to(by_key, name="sink")
    assert "Sink: sink (extractor class: by_key)" in builder.build().describe()
