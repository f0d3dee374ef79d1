"""Arguments of another kind than declared: named where they are given, never a bare TypeError."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.contracts.errors import TopologyError
from logstate.topology import (
    Materialized,
    StreamsBuilder,
    UnlimitedWindows,
    Windows,
    until_time_limit,
)
from tests.unit.topology.declaring.declared import both, grouped, stream, table

SECOND = timedelta(seconds=1)


def serde_that_is_not_needed() -> object:
    one, rows, _ = both()
    return one.join(rows, lambda a, b: a, key=5)


class Sizeless(Windows):
    grace_ms = 0

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        return [(timestamp, timestamp + 1)]


class Lasting(Sizeless):
    size_ms = SECOND  # type: ignore[assignment]


def table_of(store: Materialized) -> object:
    return StreamsBuilder().table("rows", key=str, value=int, store=store)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "a start that is no time": (
        lambda: UnlimitedWindows(start_ms=float("nan")),  # type: ignore[arg-type]
        "start_ms of UnlimitedWindows: they begin at the timestamp nan, a float: .* an int",
    ),
    "windows without a size": (
        lambda: grouped().windowed_by(Sizeless()),
        "size_ms of the windows Sizeless must be a whole number of at least 1, found None",
    ),
    "windows of a timedelta": (
        lambda: grouped().windowed_by(Lasting()),
        r"size_ms of the windows Lasting must be a whole number .* found datetime.timedelta",
    ),
    "a table's name": (
        lambda: StreamsBuilder().table("t", value=int, name=5),  # type: ignore[call-overload]
        "5 is not a valid name for an operator: it is a int",
    ),
    "a global table's name": (
        lambda: StreamsBuilder().global_table("t", value=int, store="t", name=b"x"),  # type: ignore[call-overload]
        "b'x' is not a valid name for an operator: it is a bytes",
    ),
    "a merge's name": (
        lambda: stream().merge(stream(), name=Path("x")),  # type: ignore[arg-type]
        "is not a valid name for an operator",
    ),
    "a cogroup's name": (
        lambda: grouped().cogroup(lambda a, v: a).aggregate(int, value=int, store="s", name=""),
        "'' is not a valid name for an operator: it is empty",
    ),
    "a branch's name": (
        lambda: stream().split(name="by-").branch(bool, name=7),  # type: ignore[arg-type]
        "7 is not a valid name for a branch: it is a int",
    ),
    "headers that count as true": (
        lambda: Materialized("s", headers="no"),  # type: ignore[arg-type]
        "headers= of store 's' must be True or False, found 'no'",
    ),
    "a changelog's settings": (
        lambda: table_of(Materialized("s", changelog_config=[])),  # type: ignore[arg-type]
        r"changelog_config of store 's' must be a dict.* got \[\]",
    ),
    "settings of a changelog that is not there": (
        lambda: until_time_limit(SECOND, logged=False, changelog_config=5),  # type: ignore[arg-type]
        "suppress has logged=False and changelog_config=5",
    ),
    "a key that nothing makes": (
        lambda: table().to_stream(key=str),  # type: ignore[call-overload]
        "without a mapper keeps the table's keys",
    ),
    "a file's name": (
        lambda: stream().print(file="out.txt"),  # type: ignore[arg-type]
        "file= of print.* must be an open text file, found 'out.txt'",
    ),
    "more partitions than there are numbers": (
        lambda: stream().repartition(name="r", partitions=2**31),
        "partitions of a repartition must be at most 2147483647",
    ),
    "a serde that a join does not need": (
        serde_that_is_not_needed,
        "the key of the stream",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_argument_of_another_kind_is_refused_with_the_users_line(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(TopologyError, match=message) as caught:
        call()
    assert "test_refused_kinds.py:" in (caught.value.declared_at or "")
