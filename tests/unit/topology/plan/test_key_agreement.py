"""What meets by key must have keys of equal bytes, else it would lie in other partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    JoinWindows,
    StreamsBuilder,
    TopologyError,
    TumblingWindows,
    int32,
    int64,
    json_of,
    windowed,
)
from logstate.contracts.serde import Serde
from logstate.testing import FakeCluster
from tests import patience

NEAR = JoinWindows.symmetric(timedelta(seconds=1))


def both(left: Any, right: Any) -> str:
    return f"{left}/{right}"


def stream_with_table(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    table = builder.table("right", key=other, value=str, store="rows")
    return builder.stream("left", key=one, value=str).left_join(table, both)


def stream_with_stream(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    right = builder.stream("right", key=other, value=str)
    return builder.stream("left", key=one, value=str).join(right, both, windows=NEAR, name="j")


def table_with_table(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    right = builder.table("right", key=other, value=str, store="rows")
    return builder.table("left", key=one, value=str, store="left-rows").join(right, both)


def merged_and_counted(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    right = builder.stream("right", key=other, value=str)
    merged = builder.stream("left", key=one, value=str).merge(right)
    return merged.group_by_key(key=one, value=str).count(store="counts")


def merged_and_windowed(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    right = builder.stream("right", key=other, value=str).filter(lambda k, v: True)
    merged = builder.stream("left", key=one, value=str).merge(right).peek(lambda k, v: None)
    windows = TumblingWindows(size=timedelta(seconds=1))
    return merged.group_by_key(key=one, value=str).windowed_by(windows).count(store="counts")


def cogrouped(builder: StreamsBuilder, one: Any, other: Any) -> Any:
    left = builder.stream("left", key=one, value=str).group_by_key()
    right = builder.stream("right", key=other, value=str).group_by_key()
    add: Callable[..., Any] = lambda k, v, total: total + 1  # noqa: E731
    return left.cogroup(add).cogroup(right, add).aggregate(lambda: 0, store="totals", value=int)


MEETINGS = [
    stream_with_table,
    stream_with_stream,
    table_with_table,
    merged_and_counted,
    merged_and_windowed,
    cogrouped,
]
UNEQUAL = [(int64, int32), (int64, json_of(int)), (json_of(str), str)]


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize(("one", "other"), UNEQUAL)
def test_keys_of_other_bytes_are_refused(meeting: Any, one: Any, other: Any) -> None:
    builder = StreamsBuilder()
    meeting(builder, one, other)
    with pytest.raises(TopologyError) as caught:
        builder.build()
    said = str(caught.value)
    assert "'left'" in said
    assert "'right'" in said
    assert "equal keys have other bytes" in said
    assert "repartition(name=" in said
    assert said.count(Path(__file__).name) == 2  # both declarations


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("key", [int64, json_of(str), windowed(str, 5)])
def test_keys_of_equal_bytes_may_meet(meeting: Any, key: Any) -> None:
    builder = StreamsBuilder()
    meeting(builder, key, key)
    assert builder.build().sub_topologies


def test_streams_that_were_merged_may_be_written_anew_without_agreeing() -> None:
    builder = StreamsBuilder()
    merged = builder.stream("a", key=int64, value=str).merge(
        builder.stream("b", key=int32, value=str)
    )
    merged.map_values(str.upper).to("out", key=int64, value=str)
    merged.repartition(name="again", key=int64, value=str).group_by_key().count(store="n")
    assert builder.build().sub_topologies


class Own(Serde[int]):
    def __init__(self, name: str) -> None:
        self.name = name

    def serializer(self, topic: str, is_key: bool) -> Any:
        return int64.serializer(topic, is_key)

    def deserializer(self, topic: str, is_key: bool) -> Any:
        return int64.deserializer(topic, is_key)

    def describe(self) -> dict[str, Any]:
        return {"format": self.name}


@pytest.mark.parametrize(("name", "warnings"), [("mine", 1), ("int64", 0)])
def test_a_serde_of_the_users_own_is_let_pass_with_a_warning(
    name: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    stream_with_table(builder, int64, Own(name))
    with caplog.at_level(logging.WARNING, "logstate"):
        builder.build()
    found = [one.getMessage() for one in caplog.records if "describe()" in one.getMessage()]
    assert len(found) == warnings


def remedied(builder: StreamsBuilder) -> None:
    table = builder.table("right", key=int32, value=str, store="rows")
    left = builder.stream("left", key=int64, value=str)
    again = left.repartition(name="again", key=int32, value=str)
    again.left_join(table, both).to("out", key=int64, value=str)


def test_the_remedy_that_the_error_names_joins_every_key(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    remedied(builder)
    cluster = FakeCluster({"left": 4, "right": 4, "out": 1})
    for key in range(40):
        row = int32.serializer("right", True)(key)
        cluster.produce("right", row, b"right", timestamp=1)
        cluster.produce("left", int64.serializer("left", True)(key), b"left", timestamp=10)
    with Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    ):
        cluster.wait_for_records("out", 40, patience.PATIENCE_S)
    assert {record.value() for record in cluster.records("out")} == {b"left/right"}
