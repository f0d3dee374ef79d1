"""Checked by mypy in test_typing.py, never run: what the DSL's types say, and what they refuse.

``# type: ignore[code]`` marks a line that must be an error; an unused one is an error itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import msgspec

from logstate.contracts.records import Windowed
from logstate.topology import (
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
)


class Click(msgspec.Struct):
    user: str
    ms: int


def sources(builder: StreamsBuilder) -> None:
    assert_type(builder.stream("clicks", value=Click), KStream[str, Click])
    assert_type(builder.stream("clicks", key=int, value=Click), KStream[int, Click])
    assert_type(builder.table("clicks", value=Click, store="s"), KTable[str, Click])


def stateless(clicks: KStream[str, Click]) -> None:
    assert_type(clicks.filter(lambda click: click.ms > 1), KStream[str, Click])
    assert_type(clicks.filter(lambda key, click: key == click.user), KStream[str, Click])
    assert_type(clicks.map_values(lambda click: click.ms, value=int), KStream[str, int])
    assert_type(clicks.map(lambda key, click: (click.ms, key)), KStream[int, str])
    assert_type(clicks.select_key(lambda click: click.ms), KStream[int, Click])
    assert_type(clicks.flat_map_values(lambda click: [click.ms]), KStream[str, int])
    clicks.filter(lambda click: click.nothing)  # type: ignore[attr-defined]
    clicks.map(lambda click: click.ms)  # type: ignore[arg-type, return-value]


def groups(clicks: KStream[str, Click]) -> None:
    grouped = clicks.group_by(lambda click: click.ms, key=int)
    assert_type(grouped, KGroupedStream[int, Click])
    assert_type(grouped.count(store="c"), KTable[int, int])
    sums = grouped.aggregate(lambda: 0, lambda total, click: total + click.ms, value=int, store="s")
    assert_type(sums, KTable[int, int])
    grouped.aggregate(
        lambda: 0,
        lambda total, click: total + click.nothing,  # type: ignore[attr-defined]
        value=int,
        store="s",
    )
    windows = TumblingWindows(size=timedelta(hours=1))
    assert_type(grouped.windowed_by(windows).count(store="w"), KTable[Windowed[int], int])
    sessions = grouped.windowed_by(SessionWindows(gap=timedelta(hours=1)))
    assert_type(sessions.count(store="w"), KTable[Windowed[int], int])


def joins(clicks: KStream[str, Click], names: KTable[str, str], ids: KTable[int, str]) -> None:
    assert_type(clicks.join(names, lambda click, name: f"{name}{click.ms}"), KStream[str, str])
    clicks.left_join(names, lambda click, name: name.upper())  # type: ignore[union-attr]
    clicks.join(ids, lambda click, name: name)  # type: ignore[arg-type]
    windows = JoinWindows.symmetric(timedelta(seconds=1))
    assert_type(
        clicks.join(clicks, lambda a, b: a.ms - b.ms, windows=windows, name="j"), KStream[str, int]
    )
    assert_type(
        names.join(ids, lambda a, b: len(a + b), foreign_key=len, store="j", name="j"),
        KTable[str, int],
    )


def tables(names: KTable[str, str]) -> None:
    assert_type(names.map_values(lambda name: name + name, value=str), KTable[str, str])
    assert_type(names.group_by(lambda key, name: (name, 1)), KGroupedTable[str, int])
    assert_type(names.to_stream(), KStream[str, str])
    assert_type(names.to_stream(lambda key, name: len(name), key=int), KStream[int, str])
