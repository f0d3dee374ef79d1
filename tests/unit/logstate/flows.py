"""Small topologies that several tests of the engine run."""

from __future__ import annotations

from logstate.topology import StreamsBuilder


def counted(builder: StreamsBuilder) -> None:
    """Counts per key in "counts", every new count to "out"."""
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts").to_stream().map_values(str, value=str).to("out")


def passed(builder: StreamsBuilder) -> None:
    """Every record to "out"; no state."""
    builder.stream("in", key=str, value=str).to("out")


def recounted(builder: StreamsBuilder) -> None:
    """Counts per value behind a repartition topic."""
    stream = builder.stream("in", key=str, value=str)
    words = stream.group_by(lambda value: value, name="by-word", key=str)
    counts = words.count(store="counts").to_stream()
    counts.map_values(str, value=str).to("out")


def named(builder: StreamsBuilder) -> None:
    """Every record with the name found in a global table."""
    names = builder.global_table("names", key=str, value=str, store="names")
    stream = builder.stream("in", key=str, value=str)
    joined = stream.left_join(
        names, lambda value, name: f"{value}:{name}", key_mapper=lambda key, value: key
    )
    joined.to("out", value=str)
