"""Drawn joins of every kind."""

from __future__ import annotations

from typing import Any

from .drawing import Drawing, Drawn


def stream_join(drawing: Drawing, flow: Drawn) -> None:
    others = drawing.others(flow, "stream")
    if not others:
        return
    spans = ((0, 0), (3, 3), (10, 0), (0, 10), (3, 10), (-2, 6), (6, -2))
    before_ms, after_ms = drawing.rng.choice(spans)
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="stream_stream",
        type=drawing.rng.choice(("inner", "left", "outer")),
        left=flow.name,
        right=drawing.rng.choice(others).name,
        joiner=drawing.rng.choice(("concat", "concat_key")),
        before_ms=before_ms,
        after_ms=after_ms,
        grace_ms=drawing.rng.choice((0, 2, 10)),
        store=drawing.name("store"),
    )


def table_join(drawing: Drawing, flow: Drawn) -> None:
    others = drawing.others(flow, "table")
    if not others:
        return
    table = drawing.rng.choice(others)
    waits = table.is_versioned and drawing.chance(0.5)
    if waits:  # Kafka Streams fails with a NullPointerException where a null key would wait
        predicate = "key_not_null"
        flow = drawing.add(
            "filter", drawing.then(flow, "keyed"), **{"in": flow.name}, predicate=predicate
        )
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="stream_table",
        type=drawing.rng.choice(("inner", "left")),
        left=flow.name,
        right=table.name,
        joiner=drawing.rng.choice(("concat", "concat_key")),
        grace_ms=drawing.rng.choice((0, 5)) if waits else None,
    )


def global_join(drawing: Drawing, flow: Drawn) -> None:
    topic, name = f"t{len(drawing.inputs)}", drawing.name("global")
    drawing.inputs[topic] = {"key": "string", "value": "string"}
    drawing.steps.append(
        {"op": "global_table", "name": name, "topic": topic, "store": f"{name}-rows"}
        | drawing.inputs[topic]
    )
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="stream_global_table",
        type=drawing.rng.choice(("inner", "left")),
        left=flow.name,
        right=name,
        key_mapper=drawing.key_mapper(flow),
        joiner="concat",
    )


def tables_join(drawing: Drawing, flow: Drawn) -> None:
    others = drawing.others(flow, "table")
    if not others:
        return
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="table_table",
        type=drawing.rng.choice(("inner", "left", "outer")),
        left=flow.name,
        right=drawing.rng.choice(others).name,
        joiner="concat",
        **drawing.store(),
    )


def foreign_key_join(drawing: Drawing, flow: Drawn) -> None:
    tables = [one for one in drawing.flows if one.kind == "table" and one.has_rows]
    others = [one for one in tables if one.key == "string"]
    if not others:
        return
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="foreign_key",
        type=drawing.rng.choice(("inner", "left")),
        left=flow.name,
        right=drawing.rng.choice(others).name,
        foreign_key=_foreign_key(drawing, flow),
        joiner="concat",
        **drawing.store(may_be_absent=False),
    )


def _foreign_key(drawing: Drawing, flow: Drawn) -> Any:
    if flow.key == "string" and drawing.chance(0.2):
        return "key" if flow.value == "string" else {"key_null_if_value_gt": 3}
    return {"field": 0} if flow.value == "string" else {"value_mod": 3}
