"""Drawn joins of every kind."""

from __future__ import annotations

from .drawing import Drawing, Drawn


def stream_join(drawing: Drawing, flow: Drawn) -> None:
    others = drawing.others(flow, "stream")
    if not others:
        return
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="stream_stream",
        type=drawing.rng.choice(("inner", "left", "outer")),
        left=flow.name,
        right=drawing.rng.choice(others).name,
        joiner=drawing.rng.choice(("concat", "concat_key")),
        before_ms=drawing.rng.choice((0, 3, 10)),
        after_ms=drawing.rng.choice((0, 3, 10)),
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
    others = [one for one in drawing.others(flow, "table") if one != flow]
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
    others = drawing.others(flow, "table")
    if not others:
        return
    drawing.add(
        "join",
        drawing.then(flow, "joined", value="string"),
        kind="foreign_key",
        type=drawing.rng.choice(("inner", "left")),
        left=flow.name,
        right=drawing.rng.choice(others).name,
        foreign_key={"field": 0} if flow.value == "string" else {"value_mod": 3},
        joiner="concat",
        **drawing.store(may_be_absent=False),
    )
