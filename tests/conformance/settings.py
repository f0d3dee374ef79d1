"""The recorded configuration, as the arguments of logstate's builder and test driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.topology import StreamsBuilder

KNOWN = {
    "application.id",
    "wall_clock_start_ms",
    "topology.optimization",
    "dsl.store.suppliers",
    "dsl.store.format",
    "outer_join_emit_interval_ms",
    "window_emit_interval_ms",
    "statestore.cache.max.bytes",
}

#: no record is ever the last one before a commit
_NEVER = 10**9


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def builder_of(config: dict[str, Any]) -> StreamsBuilder:
    """A builder with the case's settings. A setting that is not known is an error."""
    if unknown := config.keys() - KNOWN:
        raise ValueError(f"the case has unknown settings: {', '.join(sorted(unknown))}")
    return StreamsBuilder(
        in_memory_stores=config.get("dsl.store.suppliers") == "in_memory",
        store_headers=config.get("dsl.store.format") == "HEADERS",
        window_emit_interval=milliseconds(config.get("window_emit_interval_ms", 0)),
        outer_join_emit_interval=milliseconds(config.get("outer_join_emit_interval_ms", 0)),
    )


_RULES = {
    "reuse.ktable.source.topics": "reuse_source_topics",
    "merge.repartition.topics": "merge_repartition_topics",
    "single.store.self.join": "single_store_self_join",
}


def optimization_of(config: dict[str, Any]) -> str | list[str]:
    """The optimization to build with."""
    given = str(config.get("topology.optimization", "none"))
    return given if given in ("none", "all") else [_RULES[rule] for rule in given.split(",")]


def driver_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the test driver: every store update is logged at once, as recorded.

    With a cache the events say when to commit.
    """
    return {
        "application_id": config["application.id"],
        "wall_clock_start_ms": config["wall_clock_start_ms"],
        "changelog_writes": "update",
        "commit_every": _NEVER if has_cache(config) else 1,
    }


def has_cache(config: dict[str, Any]) -> bool:
    """Whether results of ``"emit": "on_commit"`` wait in Kafka Streams' record cache."""
    return "statestore.cache.max.bytes" in config
