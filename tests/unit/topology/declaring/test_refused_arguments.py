"""Wrong arguments are refused where they are given: the user's line, what was found, what to do.

What needs the whole graph is in test_build_errors.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import logstate.topology as dsl
from logstate.contracts.errors import TopologyError
from logstate.topology import (
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    UnlimitedWindows,
    key_value_store,
    session_store,
    until_time_limit,
    until_window_closes,
    versioned_store,
    window_store,
)
from tests.syntax import syntax
from tests.unit.topology.declaring.declared import both, grouped, stream, table

SECOND = timedelta(seconds=1)

HERE = "tests/unit/topology/declaring/test_refused_arguments.py"


def stream_joins_tumbling() -> object:
    one, _, other = both()
    return one.join(other, lambda a, b: a, windows=TumblingWindows(size=SECOND), name="j")  # type: ignore[call-overload]


def table_joins_stream() -> object:
    one, rows, _ = both()
    return rows.join(one, lambda a, b: a)  # type: ignore[call-overload]


def table_join_with_windows() -> object:
    _, rows, _ = both()
    return rows.join(rows, lambda a, b: a, windows=JoinWindows(after=SECOND))  # type: ignore[call-overload]


def merges_table() -> object:
    one, rows, _ = both()
    return one.merge(rows)  # type: ignore[arg-type]


def cogroups_other_builder() -> object:
    return grouped().cogroup(lambda a, v: a).cogroup(grouped(), lambda a, v: a)


def cogroups_stream() -> object:
    return grouped().cogroup(lambda a, v: a).cogroup(stream(), lambda a, v: a)  # type: ignore[arg-type]


def second_default_branch() -> object:
    split = stream().split(name="by-")
    split.default_branch()
    return split.default_branch()


def declares_after_build() -> object:
    builder = StreamsBuilder()
    one = stream(builder)
    one.to("out")
    builder.build()
    return one.filter(bool)


def sessions_without_merger() -> object:
    windows = SessionWindows(gap=SECOND)
    return (
        grouped().cogroup(lambda a, v: a).windowed_by(windows).aggregate(int, value=int, store="s")
    )


def merger_without_sessions() -> object:
    windows = TumblingWindows(size=SECOND)
    cogrouped = grouped().cogroup(lambda a, v: a).windowed_by(windows)
    return cogrouped.aggregate(int, lambda a, b: a, value=int, store="s")


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "no topic": (lambda: StreamsBuilder().stream(value=int), "needs a topic"),
    "extractor's shape": (
        lambda: StreamsBuilder().stream("t", value=int, timestamp_extractor=lambda value: 1),
        r"extractor .* does not fit: too many .* Accepted: \(key, value, record_timestamp",
    ),
    "extractor is a number": (
        lambda: StreamsBuilder().stream("t", value=int, timestamp_extractor=5),
        "timestamp extractor 5 is not callable",
    ),
    "reset in the future": (
        lambda: StreamsBuilder().stream("t", value=int, offset_reset=-SECOND),
        "offset_reset must be one of",
    ),
    "versioned global table": (
        lambda: StreamsBuilder().global_table(
            "t", value=int, store=Materialized("s", history=SECOND)
        ),
        "cannot be versioned: it is not synchronized",
    ),
    "store by name only": (
        lambda: StreamsBuilder().add_store("seen"),  # type: ignore[arg-type]
        "added by its declaration, found 'seen'",
    ),
    "topic is a number": (lambda: stream().to(7), "topic chooser 7 is not callable"),
    "chooser's shape": (
        lambda: stream().to(lambda key: "t"),
        r"topic chooser .* Accepted: \(key, value\) or \(key, value, context\)",
    ),
    "partitioner's shape": (
        lambda: stream().to("t", partitioner=lambda key: 1),
        r"partitioner .* \(topic, key, value, partition_count\)",
    ),
    "no partitions": (
        lambda: stream().repartition(name="r", partitions=0),
        "partitions of a repartition must be .* at least 1, found 0",
    ),
    "a table is no stream": (merges_table, r"merge takes KStreams, found KTable\('rows'\)"),
    "two default branches": (second_default_branch, "already has its default branch"),
    "not windows": (
        lambda: grouped().windowed_by(JoinWindows(after=SECOND)),
        "windowed_by takes windows, found JoinWindows",
    ),
    "not windows, cogrouped": (
        lambda: grouped().cogroup(lambda a, v: a).windowed_by(5),
        "windowed_by takes windows, found 5",
    ),
    "windows of another kind": (stream_joins_tumbling, "must be JoinWindows, found Tumbling"),
    "a stream is no table": (table_joins_stream, "A table join takes a KTable, found KStream"),
    "another join's option": (table_join_with_windows, "a table join has no option windows"),
    "cogroup over builders": (cogroups_other_builder, "different StreamsBuilders"),
    "cogroup ungrouped": (cogroups_stream, "cogroup takes a KGroupedStream, found KStream"),
    "no merger": (sessions_without_merger, "needs a merger"),
    "merger for nothing": (merger_without_sessions, "merger is for session windows, found Tumb"),
    "suppress until later": (
        lambda: table().suppress("later", name="x"),
        r"suppress takes until_window_closes\(\) or .*, found 'later'",
    ),
    "a buffer for nothing": (
        lambda: until_window_closes(max_records=0),
        "max_records of suppress must be .* at least 1, found 0",
    ),
    "a strict buffer without a maximum": (
        lambda: until_time_limit(SECOND, shut_down_when_full=True),
        "needs max_records= or max_bytes=",
    ),
    "a strict buffer for nothing": (
        lambda: until_time_limit(SECOND, shut_down_when_full=True, max_bytes=0),
        "max_bytes of suppress must be .* at least 1, found 0",
    ),
    "settings of no changelog": (
        lambda: until_window_closes(logged=False, changelog_config={"segment.ms": "1000"}),
        "logged=False and changelog_config=.*topic it has no use",
    ),
    "a buffer whose log forgets": (
        lambda: table().suppress(
            until_time_limit(SECOND, changelog_config={"cleanup.policy": "delete"}), name="x"
        ),
        "changelog_config of store 'x-store'.*leave the changelog by their tombstones",
    ),
    "a capacity of nothing": (
        lambda: Materialized("x", capacity=0),
        "the capacity of store 'x' must be .* at least 1, found 0",
    ),
    "a capacity on the disk": (
        lambda: Materialized("x", capacity=1, in_memory=False),
        "a capacity and in_memory=False",
    ),
    "a capacity of windows": (
        lambda: (
            grouped()
            .windowed_by(TumblingWindows(size=SECOND))
            .count(store=Materialized("x", capacity=1))
        ),
        "a capacity, but its table is windowed",
    ),
    "a capacity of versions": (
        lambda: StreamsBuilder().table(
            "t", value=str, store=Materialized("x", capacity=1, history=SECOND)
        ),
        "a history and a capacity",
    ),
    "a capacity of every instance": (
        lambda: StreamsBuilder().global_table("t", value=str, store=Materialized("x", capacity=1)),
        "Global table 'x' cannot have a capacity",
    ),
    "headers of bare values": (
        lambda: window_store("w", str, int, size=SECOND, retention=SECOND, headers=True),
        "has headers=True, but its rows are values alone",
    ),
    "headers of versions": (
        lambda: StreamsBuilder().table(
            "t", value=str, store=Materialized("x", headers=True, history=SECOND)
        ),
        "headers=True and a history",
    ),
    "headers of few": (
        lambda: StreamsBuilder().table(
            "t", value=str, store=Materialized("x", headers=True, capacity=1)
        ),
        "headers=True and a capacity",
    ),
    "headers of a join": (
        lambda: stream(one := StreamsBuilder()).join(
            one.stream("o", value=int),
            lambda a, b: a,
            windows=JoinWindows(after=SECOND),
            name="j",
            store=Materialized("x", headers=True),
        ),
        "the stores of a join log their records' headers always",
    ),
    "negative limit": (lambda: until_time_limit(-SECOND), "limit of suppress must be at least 0"),
    "negative interval": (
        lambda: StreamsBuilder(window_emit_interval=-SECOND),
        "window_emit_interval must be at least 0 ms, found -1000 ms",
    ),
    "short window store": (
        lambda: window_store("s", str, int, size=2 * SECOND, retention=SECOND),
        "retention of 1000 ms and windows of 2000 ms",
    ),
    "negative retention": (
        lambda: session_store("s", str, int, retention=-SECOND),
        "retention of a session store must be at least 0 ms",
    ),
    "negative history": (
        lambda: versioned_store("s", str, int, history=-SECOND),
        "history of a versioned store must be at least 0 ms",
    ),
    "empty segments": (
        lambda: versioned_store("s", str, int, history=SECOND, segment_interval=timedelta(0)),
        "segment_interval must be at least 1 ms",
    ),
    "no serde": (lambda: key_value_store("s", str, "jsn"), "jsn"),
    "history of a window": (
        lambda: (
            grouped()
            .windowed_by(TumblingWindows(size=SECOND))
            .count(store=Materialized("s", history=SECOND))
        ),
        "only plain tables can be versioned",
    ),
    "retention of a table": (
        lambda: grouped().count(store=Materialized("s", retention=SECOND)),
        "rows of a plain table expire if it has a ttl",
    ),
    "versioned in memory": (
        lambda: grouped().count(store=Materialized("s", history=SECOND, in_memory=True)),
        "versioned stores are on disk only",
    ),
    "never closes": (
        lambda: grouped().windowed_by(UnlimitedWindows()).count(store="s", emit="close"),
        "they never close",
    ),
    "negative start": (lambda: UnlimitedWindows(start_ms=-1), "must not be negative, found -1"),
    "a store that is none": (
        lambda: stream().process(Processor, stores=[7]),  # type: ignore[list-item]
        "stores= takes names of stores, or declarations .* found 7",
    ),
    "a processor, not its class": (
        lambda: stream().process(Processor()),  # type: ignore[arg-type]
        "give the class",
    ),
    "declared too late": (declares_after_build, "is declared after build"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_argument_is_refused_with_the_users_line(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(TopologyError, match=message) as caught:
        call()
    assert (caught.value.declared_at or "").startswith(
        "tests/unit/topology/declaring/test_refused_arguments.py:"
    )


FOLDER = Path(dsl.__file__).parent


def raised_errors() -> list[tuple[str, ast.Call]]:
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted([*FOLDER.rglob("*.py"), *FOLDER.glob("operators/*.py")])
        for node in syntax(path).nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"TopologyError", "declaration_error"}  # which finds the line
    ]


def test_every_topology_error_names_the_users_line() -> None:
    without = [
        place
        for place, call in raised_errors()
        if ast.unparse(call.func) == "TopologyError"
        and "declared_at" not in {keyword.arg for keyword in call.keywords}
    ]
    assert not without
    assert len(raised_errors()) > 40


def test_every_topology_error_is_made_of_whole_sentences() -> None:
    """What was found, then the cause or what to do: one sentence alone says too little."""
    for place, call in raised_errors():
        if isinstance(call.args[0], ast.Call | ast.Name):
            continue  # another error's text, passed on
        message = call.args[0]
        parts = message.values if isinstance(message, ast.JoinedStr) else [message]
        text = "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in parts)
        assert text.endswith((".", "…")), f"{place}: {text}"
        assert ": " in text or ". " in text, f"{place}: {text}"


#: what takes flags, and the names of these
FLAGGED: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "Materialized": (lambda **f: Materialized("n", **f), ("in_memory", "logged", "deletes")),
    "StreamsBuilder": (StreamsBuilder, ("in_memory_stores", "store_headers")),
    "until_window_closes": (until_window_closes, ("logged",)),
    "until_time_limit": (lambda **f: until_time_limit(SECOND, **f), ("logged",)),
    "key_value_store": (
        lambda **f: key_value_store("n", str, int, **f),
        ("in_memory", "logged"),
    ),
    "timestamped_key_value_store": (
        lambda **f: dsl.timestamped_key_value_store("n", str, int, **f),
        ("in_memory", "logged", "headers"),
    ),
    "lru_store": (lambda **f: dsl.lru_store("n", str, int, capacity=2, **f), ("logged",)),
    "window_store": (
        lambda **f: window_store("n", str, int, size=SECOND, retention=SECOND, **f),
        ("retain_duplicates", "in_memory", "logged", "timestamped"),
    ),
    "session_store": (
        lambda **f: session_store("n", str, int, retention=SECOND, **f),
        ("in_memory", "logged"),
    ),
    "versioned_store": (
        lambda **f: versioned_store("n", str, int, history=SECOND, **f),
        ("logged",),
    ),
    "timer_store": (lambda **f: dsl.timer_store("n", str, **f), ("in_memory",)),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_what_merely_counts_as_true_or_false_is_refused(name: str) -> None:
    """A text such as "false" counts as true, and None as false: changelogs came and went."""
    declare, flags = FLAGGED[name]
    for flag in flags:
        for given in (True, False):
            declare(**{flag: given})
        for wrong in ("false", "", 0, 1, [], SECOND):
            with pytest.raises(TopologyError, match=rf"{flag}= of .* must be True or False, fou"):
                declare(**{flag: wrong})


def test_a_cache_has_a_capacity() -> None:
    for wrong in (None, 0, True, "5", 2.5):
        with pytest.raises(TopologyError, match="capacity of store 'n' must be a whole number"):
            dsl.lru_store("n", str, int, capacity=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, True, 1.5, SECOND, object, b"rows"])
def test_what_is_no_name_or_set_of_names_is_refused(wrong: Any) -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="stores= takes names of stores"):
        stream(builder).process(Processor, stores=wrong)
    with pytest.raises(TopologyError, match="Unknown optimization"):
        builder.build(wrong)
    with pytest.raises(TopologyError, match="topic"):
        builder.stream([wrong], value=str)  # type: ignore[call-overload]
