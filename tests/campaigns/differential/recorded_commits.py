"""Record runs of Kafka Streams with its cache.

Run ``python -m tests.campaigns.differential.recorded_commits FOLDER``.

A case for each kind of aggregation by key whose results wait for the commit. The table is grouped
once more, so that old values are in the repartition topic, and aggregated. Windows, sessions,
cogroups and tables are in the drawn cases.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from logstate.local_broker.jar_list import KAFKA_VERSION
from tests.conformance.compare import logged_per_commit

from .cases import CACHE_BYTES, events_with_commits
from .jvm import KafkaStreams
from .verdict import decoded_output

Step = dict[str, Any]
SEEDS = (1, 2, 3)
#: case -> the aggregation
AGGREGATIONS: dict[str, Step] = {
    "count": {"op": "count"},
    "reduce": {"op": "reduce", "reducer": "sum"},
    "aggregate-concat": {"op": "aggregate", "aggregator": "concat"},
    "aggregate-null": {"op": "aggregate", "aggregator": "sum_drop_zero"},
}


def case_of(name: str) -> dict[str, Any]:
    """The case, without its runs."""
    types = {"key": "string", "value": "int64"}
    held: Step = {**AGGREGATIONS[name], "name": "held", "in": "grouped", "store": "held"}
    held["emit"] = "on_commit"
    regrouped = {"key": "key", "value": "identity"}
    again: Step = {"in": "again", "aggregator": "concat", "store": "all"}
    return {
        "case": f"on-commit-{name}",
        "config": {
            "application.id": "app",
            "wall_clock_start_ms": 1_000_000,
            "statestore.cache.max.bytes": CACHE_BYTES,
        },
        "topology": [
            {"op": "stream", "name": "source", "topic": "in", **types},
            {"op": "group_by_key", "name": "grouped", "in": "source"},
            held,
            {"op": "group_by", "name": "again", "in": "held", "mapper": regrouped},
            {"op": "aggregate", "name": "all", **again},
            {"op": "to_stream", "name": "changes", "in": "all"},
            {"op": "to", "name": "sink", "in": "changes", "topic": "out"},
        ],
        "inputs": {"in": types},
        "outputs": {"out": {"key": "string", "value": "string"}},
        "description": f"{held['op']} with a cache, grouped once more; the events commit",
    }


def recorded(streams: KafkaStreams, name: str) -> dict[str, Any]:
    """The case with what Kafka Streams made of it."""
    case = case_of(name)
    runs = []
    for seed in SEEDS:
        events = events_with_commits(Random(f"{name}-{seed}"), case["inputs"])
        found = streams.run({**case, "events": events})
        assert "refused" not in found, found["refused"]
        topics = {topic: rows for topic, rows in found["topics"].items() if rows}
        logs = {topic: rows for topic, rows in topics.items() if topic.endswith("-changelog")}
        internal = {t: rows for t, rows in topics.items() if t.endswith("-repartition")}
        runs.append(
            {
                "seed": seed,
                "events": events,
                "output": decoded_output(case, "out", topics.get("out", [])),
                "dropped": found["dropped"],
                "changelog": logged_per_commit(case["topology"], "app", logs),
                "internal": internal,
            }
        )
    return {**case, "describe": found["describe"], "runs": runs}


def main(folder: Path) -> None:
    """Write a file per case."""
    with KafkaStreams() as streams:
        for name in AGGREGATIONS:
            case = recorded(streams, name) | {"kafka_streams_version": KAFKA_VERSION}
            text = json.dumps(case, ensure_ascii=True).encode()
            path = folder / f"{case['case']}.json.gz"
            path.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
