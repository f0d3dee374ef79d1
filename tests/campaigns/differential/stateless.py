"""Drawn steps that keep no state, and those between streams and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .drawing import PLAIN_KEY, Drawing, Drawn, Step


def filtered(drawing: Drawing, flow: Drawn) -> None:
    number = drawing.rng.choice(
        ({"value_gt": 2}, {"value_lt": 6}, {"value_mod_eq": [2, 0]}, "value_not_null")
    )
    text = drawing.rng.choice(({"value_len_gt": 2}, "value_not_null", "value_is_null"))
    predicate = number if flow.value == "int64" else text
    store = drawing.store() if flow.kind == "table" else {}
    op = drawing.rng.choice(("filter", "filter_not"))
    found = drawing.then(flow, "filter", is_versioned=flow.is_versioned and not store)
    drawing.add(op, found, **{"in": flow.name}, predicate=predicate, **store)


def map_values(drawing: Drawing, flow: Drawn) -> None:
    mapper, value = drawing.value_mapper(flow)
    store = drawing.store() if flow.kind == "table" else {}
    found = drawing.then(flow, "mapped", value=value, is_versioned=flow.is_versioned and not store)
    drawing.add("map_values", found, **{"in": flow.name}, mapper=mapper, **store)


def map_records(drawing: Drawing, flow: Drawn) -> None:
    mapper, value = drawing.value_mapper(flow)
    found = drawing.then(flow, "map", **PLAIN_KEY, value=value)
    spec = {"key": drawing.key_mapper(flow), "value": mapper}
    drawing.add("map", found, **{"in": flow.name}, mapper=spec)


def select_key(drawing: Drawing, flow: Drawn) -> None:
    found = drawing.then(flow, "rekeyed", **PLAIN_KEY)
    drawing.add("select_key", found, **{"in": flow.name}, mapper=drawing.key_mapper(flow))


def flat_map(drawing: Drawing, flow: Drawn) -> None:
    if flow.value == "int64" and flow.key == "string":
        found = drawing.then(flow, "flat", value="int64")
        drawing.add("flat_map", found, **{"in": flow.name}, mapper={"fan": 3})


def flat_map_values(drawing: Drawing, flow: Drawn) -> None:
    mapper: Any = {"ladder": 3} if flow.value == "int64" else "chars"
    found = drawing.then(flow, "flat")
    drawing.add("flat_map_values", found, **{"in": flow.name}, mapper=mapper)


def merge(drawing: Drawing, flow: Drawn) -> None:
    others = [one for one in drawing.others(flow, "stream", value=flow.value) if one != flow]
    if others:
        right = drawing.rng.choice(others).name
        drawing.add("merge", drawing.then(flow, "merged"), left=flow.name, right=right)


def to_table(drawing: Drawing, flow: Drawn) -> None:
    store = drawing.store(may_be_absent=False, may_be_versioned=True)
    found = drawing.then(flow, "table", kind="table", is_versioned="versioned_history_ms" in store)
    drawing.add("to_table", found, **{"in": flow.name}, **store)


def repartition(drawing: Drawing, flow: Drawn) -> None:
    drawing.add("repartition", drawing.then(flow, "again"), **{"in": flow.name})


def to_stream(drawing: Drawing, flow: Drawn) -> None:
    if flow.key != "string" and drawing.chance(0.6):
        found = drawing.then(flow, "stream", kind="stream", **PLAIN_KEY)
        drawing.add("to_stream", found, **{"in": flow.name}, mapper=drawing.key_mapper(flow))
    else:
        found = drawing.then(flow, "stream", kind="stream")
        drawing.add("to_stream", found, **{"in": flow.name})


def split(drawing: Drawing, flow: Drawn) -> None:
    name, default = drawing.name("split"), drawing.rng.choice(("rest", None))
    predicates = ("value_not_null", "value_is_null") if drawing.chance(0.5) else ("key_not_null",)
    branches = [
        {"name": f"branch{i}", "predicate": predicate} for i, predicate in enumerate(predicates)
    ]
    drawing.steps.append(
        {"op": "split", "name": name, "in": flow.name, "branches": branches}
        | ({} if default is None else {"default": default})
        | drawing.maybe_unnamed("split", {})
    )
    drawing.used.add(flow.name)
    for branch in (*(one["name"] for one in branches), default):
        if branch is not None:
            drawing.flows.append(replace(flow, name=f"{name}{branch}"))


def process(drawing: Drawing, flow: Drawn) -> None:
    name = drawing.rng.choice(("header_edit", "meta", "forward_many", "memory_punctuate"))
    is_plain = flow.key == "string"
    if name == "forward_many" and not (is_plain and flow.value == "int64"):
        return
    if name == "memory_punctuate" and not is_plain:
        return
    value = "string" if name == "meta" else flow.value
    drawing.add(
        "process",
        drawing.then(flow, "processed", value=value),
        **{"in": flow.name},
        processor=name,
        out_value=value,
        args=_schedules(drawing) if name == "memory_punctuate" else None,
    )


def _schedules(drawing: Drawing) -> Step:
    schedules: list[Step] = []
    for number in range(drawing.rng.choice((1, 1, 2, 3))):
        schedule: Step = {
            "name": f"p{number}-",
            "time": drawing.rng.choice(("stream_time", "wall_clock")),
            "interval_ms": drawing.rng.choice((1, 2, 7, 20)),
        }
        if drawing.chance(0.3):
            schedule["start_ms"] = drawing.rng.choice((0, 3, 110, 1_000_010))
        schedules.append(schedule)
    return {"schedules": schedules, "passes": drawing.chance(0.6)}


def process_values(drawing: Drawing, flow: Drawn) -> None:
    if flow.value == "int64":
        found = drawing.then(flow, "twice")
        drawing.add("process_values", found, **{"in": flow.name}, processor="values_twice")


def to_dynamic(drawing: Drawing, flow: Drawn) -> None:
    if flow.value != "int64":
        return
    rekeyed = drawing.then(flow, "rekeyed", **PLAIN_KEY)
    flow = drawing.add("select_key", rekeyed, **{"in": flow.name}, mapper={"value_mod": 2})
    known = drawing.then(flow, "known")
    flow = drawing.add("filter", known, **{"in": flow.name}, predicate="key_not_null")
    name = drawing.name("sink")
    step = {"op": "to_dynamic", "name": name, "in": flow.name, "prefix": f"{name}-"}
    drawing.steps.append(step)
    drawing.used.add(flow.name)


def through(drawing: Drawing, flow: Drawn) -> None:
    """Out to a topic, and in again."""
    if flow.key != "string":
        return
    topic, sink = drawing.name("between"), drawing.name("sink")
    drawing.steps.append({"op": "to", "name": sink, "in": flow.name, "topic": topic})
    drawing.used.add(flow.name)
    types = {"key": "string", "value": flow.value}
    drawing.outputs[topic] = types
    kind = drawing.rng.choice(("stream", "table"))
    store = drawing.store(may_be_versioned=True) if kind == "table" else {}
    found = Drawn(
        drawing.name("source"),
        kind,
        **types,
        is_versioned="versioned_history_ms" in store,
        has_rows=kind == "stream" or "store" in store,
    )
    drawing.add(kind, found, topic=topic, **types, **store)


def transform_values(drawing: Drawing, flow: Drawn) -> None:
    store = drawing.store()
    found = drawing.then(
        flow, "tagged", value="string", is_versioned=flow.is_versioned and not store
    )
    drawing.add("transform_values", found, **{"in": flow.name}, **store)
