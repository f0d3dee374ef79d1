"""How often does each word occur? The smallest topology with state.

lines ── split into words ── group by word ── count ── word-counts
"""

from __future__ import annotations

from logstate import StreamsBuilder, Topology


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream(f"{prefix}lines", value=str)
    words = lines.flat_map_values(lambda line: line.lower().split(), value=str)
    # A new key: words go through the topic "<application id>-by-word-repartition", so that all
    # occurrences of one word meet in one partition, and so in one store.
    counts = words.group_by(lambda word: word, name="by-word", key=str).count(store="counts")
    counts.to_stream().to(f"{prefix}word-counts")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="word-count")
