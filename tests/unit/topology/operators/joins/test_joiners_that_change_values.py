"""A joiner that changes its arguments changes no row, no other pair and no old result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    JoinWindows,
    Materialized,
    StreamsBuilder,
    TopologyTestDriver,
)
from logstate.testing import FakeCluster
from tests.patience import until

MINUTE = timedelta(minutes=1)
TENTH = timedelta(milliseconds=100)
WINDOWS = JoinWindows(before=TENTH, after=TENTH, grace=TENTH)
Joiner = Callable[[Any, Any], Any]


def pure(left: Any, right: Any) -> Any:
    return {**(left or {}), **(right or {}), "joined": True}


def into_left(left: Any, right: Any) -> Any:
    if left is None:
        return into_right(left, right)
    left.update(right or {})
    left["joined"] = True
    return left


def into_right(left: Any, right: Any) -> Any:
    if right is None:
        return into_left(left, right)
    for name, value in (left or {}).items():
        right.setdefault(name, value)
    right["joined"] = True
    return right


def ordered(result: Any) -> Any:
    """What was read, without the order of the fields of a dict."""
    return [(key, value and dict(sorted(value.items()))) for key, value in result]


def stream_streams(kind: str, joiner: Joiner, optimization: str = "none") -> Any:
    builder = StreamsBuilder()
    left = builder.stream("l", value=dict)
    right = builder.stream("r", value=dict)
    method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    method(right, joiner, windows=WINDOWS, name="j").to("out", value=dict)
    with TopologyTestDriver(builder.build(optimization=optimization)) as driver:
        driver.pipe("l", "k", {"l": 1}, timestamp=0)
        driver.pipe("r", "k", {"r": 1}, timestamp=10)
        driver.pipe("r", "k", {"r": 2}, timestamp=20)
        driver.pipe("l", "k", {"l": 2}, timestamp=30)
        driver.pipe("l", "k", {"l": 3}, timestamp=40)
        driver.pipe("r", "k", {"r": 3}, timestamp=50)
        driver.pipe("l", "alone", {"l": 4}, timestamp=60)
        driver.pipe("l", "k", {"l": 5}, timestamp=1_000)
        driver.pipe("r", "alone", {"r": 4}, timestamp=2_000)
        driver.pipe("l", "k", {"l": 6}, timestamp=3_000)
        return ordered(driver.read("out", value=dict)), [
            [record.value for record in records] for records in driver.changelogs.values()
        ]


@pytest.mark.parametrize("joiner", [into_left, into_right])
@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_a_stream_join_gives_what_a_joiner_that_makes_new_values_gives(
    kind: str, joiner: Joiner
) -> None:
    assert stream_streams(kind, joiner) == stream_streams(kind, pure)


@pytest.mark.parametrize("optimization", ["none", "single_store_self_join"])
@pytest.mark.parametrize("joiner", [into_left, into_right])
def test_so_does_a_stream_that_is_joined_with_itself(joiner: Joiner, optimization: str) -> None:
    def run(joiner: Joiner) -> Any:
        builder = StreamsBuilder()
        stream = builder.stream("l", value=dict)
        stream.join(stream, joiner, windows=WINDOWS, name="j").to("out", value=dict)
        with TopologyTestDriver(builder.build(optimization=optimization)) as driver:
            for n in range(4):
                driver.pipe("l", "k", {"n": n, f"only{n}": n}, timestamp=n * 10)
            return ordered(driver.read("out", value=dict))

    assert run(joiner) == run(lambda a, b: pure_like(joiner, a, b))


def pure_like(joiner: Joiner, left: Any, right: Any) -> Any:
    """The result of the joiner, of copies."""
    return joiner(dict(left), dict(right))


def table_tables(kind: str, joiner: Joiner, store: str | None, *, in_memory: bool) -> Any:
    builder = StreamsBuilder(in_memory_stores=in_memory)
    left = builder.table("l", value=dict, store="left")
    right = builder.table("r", value=dict, store="right")
    method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    joined = method(right, joiner, **({} if store is None else {"store": store}), value=dict)
    changes = joined.to_change_stream()
    changes.map_values(lambda c: {"old": c.old, "new": c.new}, value=dict).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for topic, value in (
            ("l", {"l": 1}), ("r", {"r": 1}), ("r", {"r": 2, "x": 1}), ("l", {"l": 2, "y": 1}),
            ("r", None), ("r", {"r": 3}), ("l", None), ("l", {"l": 3}), ("l", {"l": 4}),
        ):  # fmt: skip
            driver.pipe(topic, "k", value)
        rows = [list(driver.store(name).all()) for name in ("left", "right")]
        return driver.read("out", value=dict), rows


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("store", [None, "joined"])
@pytest.mark.parametrize("joiner", [into_left, into_right])
@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_old_and_new_results_of_a_table_join_are_of_the_rows_that_there_were(
    kind: str, joiner: Joiner, store: str | None, in_memory: bool
) -> None:
    assert table_tables(kind, joiner, store, in_memory=in_memory) == table_tables(
        kind, pure, store, in_memory=in_memory
    )


@pytest.mark.parametrize("joiner", [into_left, into_right])
@pytest.mark.parametrize("kind", ["join", "left_join"])
@pytest.mark.parametrize("table", ["table", "derived", "global", "with grace"])
def test_a_stream_that_is_joined_with_a_table_changes_no_row(
    table: str, kind: str, joiner: Joiner
) -> None:
    def run(joiner: Joiner) -> Any:
        builder = StreamsBuilder()
        stream = builder.stream("s", value=dict)
        if table == "global":
            rows = builder.global_table("t", value=dict, store="t")
            options: Any = {"key_mapper": lambda key, value: "k"}
        elif table == "with grace":
            history = Materialized("t", history=MINUTE)
            rows = builder.table("t", value=dict, store=history)
            options = {"grace": timedelta(milliseconds=10), "name": "g"}
        else:
            rows = builder.table("t", value=dict, store="t")
            if table == "derived":
                rows = rows.filter(lambda v: True).map_values(lambda v: v, value=dict)
            options = {}
        getattr(stream, kind)(rows, joiner, **options).to("out", value=dict)
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe("t", "k", {"t": 1})
            for n in range(4):
                driver.pipe("s", "k", {"s": n}, timestamp=n * 10)
            return ordered(driver.read("out", value=dict)), [
                row.value for _, row in driver.store("t").all()
            ] if table != "with grace" else None

    assert run(joiner) == run(pure)


@pytest.mark.parametrize("joiner", [into_left, into_right])
@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_foreign_key_join_changes_no_row(kind: str, joiner: Joiner) -> None:
    def run(joiner: Joiner) -> Any:
        builder = StreamsBuilder()
        left = builder.table("l", value=dict, store="left")
        right = builder.table("r", value=dict, store="right")
        method = getattr(left, kind)
        joined = method(
            right, joiner, foreign_key=lambda v: v.get("of"), name="fk", store="j", value=dict
        )
        joined.to_change_stream().map_values(lambda c: {"old": c.old, "new": c.new}, value=dict).to(
            "out"
        )
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe("l", "a", {"of": "k", "l": 1})
            driver.pipe("l", "b", {"of": "k", "l": 2})
            driver.pipe("r", "k", {"r": 1})
            driver.pipe("r", "k", {"r": 2, "x": 1})
            driver.pipe("l", "a", {"of": "k", "l": 3})
            rows = [list(driver.store(name).all()) for name in ("left", "right")]
            return driver.read("out", value=dict), rows

    assert run(joiner) == run(pure)


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_an_application_keeps_the_records_of_a_stream_join_as_they_came(
    kind: str, tmp_path: Path
) -> None:
    def run(joiner: Joiner, name: str) -> Any:
        builder = StreamsBuilder()
        left, right = builder.stream("l", value=dict), builder.stream("r", value=dict)
        method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
        method(right, joiner, windows=WINDOWS, name="j").to("out", value=dict)
        cluster = FakeCluster({"l": 1, "r": 1, "out": 1})
        for n in range(3):
            cluster.produce("l", b"k", b'{"l":%d}' % n, timestamp=n * 10 + 1)
            cluster.produce("r", b"k", b'{"r":%d}' % n, timestamp=n * 10 + 2)
        app = Application(
            builder.build(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path / name,
            commit_interval=timedelta(milliseconds=10),
            cluster=cluster,
        )
        with app:
            until(
                lambda: (
                    cluster.committed_offset("app", "l") == 3
                    and cluster.committed_offset("app", "r") == 3
                )
            )
        logs = [t for t in cluster.topics if t.endswith("-changelog")]
        return [[record.value() for record in cluster.records(log)] for log in sorted(logs)]

    assert run(into_left, "changing") == run(pure, "pure")
