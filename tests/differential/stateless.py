"""Drawn steps that keep no state, and those between streams and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .drawing import PLAIN_KEY, Drawing, Drawn


def filtered(drawing: Drawing, flow: Drawn) -> None:
    number = drawing.rng.choice(
        ({"value_gt": 2}, {"value_lt": 6}, {"value_mod_eq": [2, 0]}, "value_not_null")
    )
    text = drawing.rng.choice(({"value_len_gt": 2}, "value_not_null", "value_is_null"))
    predicate = number if flow.value == "int64" else text
    store = drawing.store() if flow.kind == "table" else {}
    op = drawing.rng.choice(("filter", "filter_not"))
    drawing.add(op, drawing.then(flow, "filter"), **{"in": flow.name}, predicate=predicate, **store)


def map_values(drawing: Drawing, flow: Drawn) -> None:
    mapper, value = drawing.value_mapper(flow)
    store = drawing.store() if flow.kind == "table" else {}
    found = drawing.then(flow, "mapped", value=value)
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
    if flow.key == "string":
        store = drawing.store(may_be_absent=False, may_be_versioned=True)
        found = drawing.then(flow, "table", kind="table")
        drawing.add("to_table", found, **{"in": flow.name}, **store)


def repartition(drawing: Drawing, flow: Drawn) -> None:
    if flow.key == "string":
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
    )
    drawing.used.add(flow.name)
    for branch in (*(one["name"] for one in branches), default):
        if branch is not None:
            drawing.flows.append(replace(flow, name=f"{name}{branch}"))
