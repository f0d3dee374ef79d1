"""Whole cases: a drawn topology, and events whose keys, times and nulls meet its edges."""

from __future__ import annotations

from random import Random
from typing import Any

from .topologies import drawn_topology

#: more than any case needs: nothing is evicted
CACHE_BYTES = 100_000_000
_LAST_COMMITS = 5
_KEYS = ("a", "b", "c", "g0", "g1")


def drawn_case(seed: int, *, emits_on_commit: bool = False) -> dict[str, Any]:
    """The case of a seed: always the same.

    With ``emits_on_commit`` Kafka Streams has a record cache, which aggregations may use, and
    events that commit.
    """
    rng = Random(seed)
    drawing = drawn_topology(rng, emits_on_commit=emits_on_commit)
    forgets = any("capacity" in step for step in drawing.steps)
    config: dict[str, Any] = {"application.id": "app", "wall_clock_start_ms": 1_000_000}
    if rng.random() < 0.15 and not forgets:
        config["topology.optimization"] = "all"
    elif rng.random() < 0.15:
        rules = ["merge.repartition.topics", "single.store.self.join"]
        rules += [] if forgets else ["reuse.ktable.source.topics"]
        config["topology.optimization"] = ",".join(rng.sample(rules, rng.choice((1, 2))))
    if rng.random() < 0.1:
        config["dsl.store.suppliers"] = "in_memory"
    elif rng.random() < 0.1:
        config["dsl.store.format"] = "HEADERS"
    if rng.random() < 0.1:
        config |= {"window_emit_interval_ms": 10, "outer_join_emit_interval_ms": 10}
    events = _events(rng, drawing.inputs)
    if emits_on_commit:
        config["statestore.cache.max.bytes"] = CACHE_BYTES
        events = _with_commits(rng, events)
    return {
        "case": f"drawn-{seed}",
        "config": config,
        "topology": drawing.steps,
        "inputs": drawing.inputs,
        "outputs": drawing.outputs,
        "events": events,
    }


def events_with_commits(rng: Random, inputs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Events of these inputs, and commits."""
    return _with_commits(rng, _events(rng, inputs))


def _with_commits(rng: Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A commit after one to some records, and at the end one for each result that waits for one."""
    commit, often = {"op": "commit"}, rng.choice((0.1, 0.3, 0.9))
    found = []
    for event in events:
        if event["op"] != "pipe":
            continue
        found.append(event)
        if rng.random() < often:
            found.append(commit)
    return found + _LAST_COMMITS * [commit]


def _events(rng: Random, inputs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    now, events = rng.choice((0, 100, 100, 1_000_000)), []
    late, jump = rng.choice((0, 5, 15)), rng.choice((0.0, 0.05))
    for _ in range(rng.choice((20, 40, 80))):
        now += rng.choice((0, 0, 1, 2, 5)) if rng.random() >= jump else rng.choice((50, 300, 5_000))
        if rng.random() < 0.05:
            events.append({"op": "advance_wall_clock", "ms": rng.choice((1, 5, 20))})
            continue
        topic = rng.choice(sorted(inputs))
        event: dict[str, Any] = {
            "op": "pipe",
            "topic": topic,
            "key": None if rng.random() < 0.04 else rng.choice(_KEYS),
            "value": _value(rng, inputs[topic]["value"]),
            "ts": max(0, now - rng.randint(0, late)),
        }
        if rng.random() < 0.2:
            event["headers"] = [["h", rng.choice(("x", "y", None))]]
        events.append(event)
    return events


def _value(rng: Random, of: str) -> Any:
    if rng.random() < 0.12:
        return None
    if of == "int64":
        return rng.randint(-3, 9)
    return rng.choice(("a|1", "b|2", "a|3", "c", "", "|", "g1|7", "bb"))
