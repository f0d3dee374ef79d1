"""Drawn groupings, windows, aggregations and suppressions."""

from __future__ import annotations

from typing import Any

from .drawing import PLAIN_KEY, Drawing, Drawn, Step


def group(drawing: Drawing, flow: Drawn) -> None:
    if flow.key == "string" and drawing.chance(0.6):
        found = drawing.then(flow, "grouped", kind="grouped_stream")
        drawing.add("group_by_key", found, **{"in": flow.name})
    else:
        found = drawing.then(flow, "grouped", kind="grouped_stream", **PLAIN_KEY)
        drawing.add("group_by", found, **{"in": flow.name}, mapper=drawing.key_mapper(flow))


def group_table(drawing: Drawing, flow: Drawn) -> None:
    mapper, value = drawing.value_mapper(flow)
    found = drawing.then(flow, "grouped", kind="grouped_table", **PLAIN_KEY, value=value)
    spec = {"key": drawing.key_mapper(flow), "value": mapper}
    drawing.add("group_by", found, **{"in": flow.name}, mapper=spec)


def _window(drawing: Drawing) -> Step:
    size, grace = drawing.rng.choice((5, 10, 20)), drawing.rng.choice((0, 0, 3, 10))
    if drawing.chance(0.05):
        return {"type": "unlimited", "start_ms": drawing.rng.choice((0, 110))}
    return drawing.rng.choice(
        (
            {"type": "tumbling", "size_ms": size, "grace_ms": grace},
            {
                "type": "hopping",
                "size_ms": size,
                "advance_ms": drawing.rng.choice((2, 5)),
                "grace_ms": grace,
            },
            {"type": "sliding", "difference_ms": size, "grace_ms": grace},
            {"type": "session", "gap_ms": size, "grace_ms": grace},
        )
    )


def _keys_of(window: Step) -> dict[str, Any]:
    if window["type"] == "session":
        return {"key": "session_windowed", "window_size_ms": None, "grace_ms": 0}
    if window["type"] == "unlimited":
        return {"key": "windowed", "window_size_ms": (1 << 63) - 1, "grace_ms": 0}
    size = window.get("size_ms", window.get("difference_ms"))
    return {"key": "windowed", "window_size_ms": size, "grace_ms": window["grace_ms"]}


def aggregation(drawing: Drawing, flow: Drawn) -> None:
    op = drawing.rng.choice(("count", "reduce", "aggregate", "aggregate"))
    members: Step = {"in": flow.name, **drawing.store(may_be_absent=False)}
    value, numbers = flow.value, flow.value == "int64"
    if op == "count":
        value = "int64"
    elif op == "reduce":
        reducers = ("sum", "min", "max", "last") if numbers else ("concat", "min", "last")
        if flow.kind == "grouped_table":
            members["adder"], members["subtractor"] = (
                ("sum", "minus") if numbers else ("concat", "concat_minus")
            )
        else:
            members["reducer"] = drawing.rng.choice(reducers)
    else:
        names = ["count", "concat", "min", "max"]
        if flow.kind == "grouped_stream":
            names += ["last", "first"]
        if numbers:
            names += ["sum", "sum_drop_zero"]
        members["aggregator"] = drawing.rng.choice(names)
        value = _aggregated(members["aggregator"], value)
    changed: dict[str, Any] = {"kind": "table", "value": value}
    if flow.kind == "grouped_stream" and drawing.chance(0.65):
        members["window"] = window = _window(drawing)
        members.pop("capacity", None)
        changed |= _keys_of(window)
        if window["type"] != "unlimited" and drawing.chance(0.3):
            members["emit"] = "on_window_close"
        if window["type"] != "unlimited" and drawing.chance(0.4):
            members["retention_ms"] = drawing.rng.choice((100, 100_000))
    _maybe_on_commit(drawing, members)
    table = drawing.add(op, drawing.then(flow, "agg", **changed), **members)
    _maybe_group(drawing, table, members)


def _maybe_on_commit(drawing: Drawing, members: Step) -> None:
    """Let the results wait for the commit, as in a cache.

    A cache still shows rows that their store hides. Where a record may come for such a row, a
    retention keeps it.
    """
    if not drawing.emits_on_commit or "emit" in members or drawing.chance(0.3):
        return
    members["emit"] = "on_commit"
    members.pop("capacity", None)
    kind = members.get("window", {}).get("type", "none")
    if kind in ("session", "sliding") or ("groups" in members and kind in ("tumbling", "hopping")):
        members["retention_ms"] = 100_000


def _maybe_group(drawing: Drawing, table: Drawn, members: Step) -> None:
    """What is sent at commits is what an aggregate of an aggregate subtracts."""
    if members.get("emit") == "on_commit" and drawing.chance(0.4):
        group_table(drawing, table)


def _aggregated(aggregator: str, value: str) -> str:
    if aggregator in ("min", "max", "last", "first"):
        return value
    return "string" if aggregator.startswith("concat") else "int64"


def cogroup(drawing: Drawing, flow: Drawn) -> None:
    others = [one for one in drawing.others(flow, "stream") if one != flow]
    if not others:
        return
    groups = []
    inputs = [(flow, "concat"), (drawing.rng.choice(others), "concat_star")]
    if drawing.chance(0.3):
        inputs.append((drawing.rng.choice(others), "concat"))
    for one, aggregator in inputs:
        found = drawing.then(one, "grouped", kind="grouped_stream")
        if one.key == "string" and drawing.chance(0.3):
            mapper = drawing.key_mapper(one)
            grouped = drawing.add("group_by", found, **{"in": one.name}, mapper=mapper)
        else:
            grouped = drawing.add("group_by_key", found, **{"in": one.name})
        groups.append({"in": grouped.name, "aggregator": aggregator})
    changed: dict[str, Any] = {"kind": "table", "value": "string"}
    members: Step = {"groups": groups, **drawing.store(may_be_absent=False)}
    if drawing.chance(0.5) and flow.key == "string":
        members["window"] = _window(drawing)
        members.pop("capacity", None)
        changed |= _keys_of(members["window"])
    _maybe_on_commit(drawing, members)
    table = drawing.add("cogroup", drawing.then(flow, "cogrouped", **changed), **members)
    _maybe_group(drawing, table, members)


def suppress(drawing: Drawing, flow: Drawn) -> None:
    limit = drawing.rng.choice((None, None, 2, 0))
    size = drawing.rng.choice((None, None, 60, 150))
    until: Step = {"type": "time_limit", "ms": drawing.rng.choice((0, 5, 20))}
    if flow.key != "string" and drawing.chance(0.7):
        until = {"type": "window_closes"}
        limit, size = drawing.rng.choice(((None, None), (None, None), (6, None), (None, 500)))
    may_be_strict = until["type"] == "time_limit" and limit != 0 and (limit or size)
    strict = may_be_strict and drawing.chance(0.2)
    found = drawing.then(flow, "held", has_rows=flow.has_rows)
    drawing.add(
        "suppress",
        found,
        **{"in": flow.name},
        until=until,
        max_records=limit,
        max_bytes=size,
        shut_down_when_full=True if strict else None,
    )
