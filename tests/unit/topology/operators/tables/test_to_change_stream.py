"""Old and new value of a table's changes: a chain per key, whatever is above and whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import serdes
from logstate.app.application import Application
from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.contracts.records import Change
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from tests.examples_tried import at_most
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)
Build = Callable[[StreamsBuilder], KTable[Any, Any]]


def table(builder: StreamsBuilder, **options: Any) -> KTable[str, int]:
    return builder.table("in", value=int, store=Materialized("rows", **options))


def sums(builder: StreamsBuilder, **options: Any) -> KTable[str, int]:
    values = builder.stream("in", value=int).group_by_key()
    return values.reduce(lambda total, value: total + value, store="sums", **options)


def other(builder: StreamsBuilder) -> KTable[str, int]:
    return builder.table("other", value=int, store="others")


def counts(builder: StreamsBuilder, windows: Any) -> KTable[Any, int]:
    values = builder.stream("in", value=int).filter(lambda value: value is not None)
    grouped = values.group_by_key()
    return grouped.windowed_by(windows).reduce(lambda a, b: a + b, store="counts")  # type: ignore[no-any-return]


#: tables whose rows begin with no old value
TABLES: dict[str, Build] = {
    "a topic": table,
    "in memory": lambda builder: table(builder, in_memory=True),
    "versioned": lambda builder: table(builder, history=timedelta(days=1)),
    "reduced": sums,
    "reduced, on commit": lambda builder: sums(builder, emit="commit"),
    "mapped": lambda builder: table(builder).map_values(lambda n: n * 10),
    "mapped, kept": lambda builder: table(builder).map_values(
        lambda n: n * 10, value=int, store="mapped"
    ),
    "filtered": lambda builder: table(builder).filter(lambda n: n > 1),
    "joined": lambda builder: table(builder).outer_join(other(builder), lambda a, b: [a, b]),
    "joined with sums, on commit": lambda builder: sums(builder, emit="commit").outer_join(
        other(builder), lambda a, b: [a, b]
    ),
    "windows": lambda builder: counts(builder, TumblingWindows(size=TEN)),
    "sessions": lambda builder: counts(
        builder, SessionWindows(gap=timedelta(milliseconds=3), grace=TEN)
    ),
}
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(("in", "in", "other")),
        st.sampled_from("ab"),
        st.none() | st.integers(0, 3),
        st.integers(0, 25),
    ),
    max_size=20,
)


def told(
    topology: Topology,
    records: list[Any],
    crashes: frozenset[int],
    *,
    topic: str = "changes",
    commit_every: int = 1,
) -> Any:
    """The changes, as (key, new, old), in their order."""
    with TopologyTestDriver(topology, commit_every=commit_every) as driver:
        for place, (source, key, value, time) in enumerate(records):
            if source == "in" or "others" in topology.stores:
                driver.pipe(source, key, value, timestamp=time)
            if place in crashes:
                driver.advance_wall_clock(0)
                driver.crash()
        driver.advance_wall_clock(0)
        return driver.read(topic, value=serdes.json)


def changes_of(build: Build) -> Topology:
    builder = StreamsBuilder()
    changes = build(builder).to_change_stream()
    # A window is part of the key; its text tells keys apart as well.
    changes.select_key(lambda key, change: str(key), key=str).map_values(list).to(
        "changes", value=serdes.json
    )
    return builder.build()


@pytest.mark.parametrize("build", TABLES.values(), ids=TABLES)
@given(
    records=RECORDS, crashes=st.frozensets(st.integers(0, 19), max_size=2), every=st.integers(1, 4)
)
def test_the_old_value_is_the_new_one_of_the_change_before(
    build: Build, records: list[Any], crashes: frozenset[int], every: int
) -> None:
    topology = changes_of(build)
    row: dict[str, Any] = {}
    for key, (new, old) in told(topology, records, crashes, commit_every=every):
        assert old == row.get(key), key
        row[key] = new


@pytest.mark.parametrize("build", TABLES.values(), ids=TABLES)
@settings(max_examples=at_most(20))
@given(records=RECORDS)
def test_the_new_values_are_those_of_to_stream(build: Build, records: list[Any]) -> None:
    def both(builder: StreamsBuilder) -> KTable[Any, Any]:
        rows = build(builder)
        rows.to_stream(lambda key, value: str(key), key=str).to("changed-rows", value=serdes.json)
        return rows

    if build is TABLES["versioned"]:  # in order: what comes late is no change of the row
        records = [(*one, time) for time, (*one, _) in enumerate(records)]
    topology = changes_of(both)
    changes = told(topology, records, frozenset())
    rows = told(topology, records, frozenset(), topic="changed-rows")
    assert [(key, new) for key, (new, _) in changes] == rows


@pytest.mark.parametrize("build", TABLES.values(), ids=TABLES)
@settings(max_examples=at_most(20))
@given(records=RECORDS, crashes=st.frozensets(st.integers(0, 19), min_size=1, max_size=3))
def test_a_crash_changes_no_change(
    build: Build, records: list[Any], crashes: frozenset[int]
) -> None:
    topology = changes_of(build)
    assert told(topology, records, crashes) == told(topology, records, frozenset())


def test_a_change_for_each_record_tombstones_for_nothing_among_them() -> None:
    changes = told(
        changes_of(table),
        [("in", "a", 1, 0), ("in", "b", None, 1), ("in", "a", 1, 2), ("in", "a", None, 1)],
        frozenset(),
    )
    assert changes == [("a", [1, None]), ("b", [None, None]), ("a", [1, 1]), ("a", [None, 1])]


def test_what_a_versioned_table_puts_below_a_newer_value_is_no_change_of_the_row() -> None:
    changes = told(
        changes_of(TABLES["versioned"]),
        [("in", "a", 1, 10), ("in", "a", 2, 5), ("in", "a", 3, 11)],
        frozenset(),
    )
    assert changes == [("a", [1, None]), ("a", [3, 1])]


def test_with_emit_commit_the_old_value_is_that_of_the_commit_before() -> None:
    records = [("in", "a", 1, time) for time in range(5)]
    changes = told(changes_of(TABLES["reduced, on commit"]), records, frozenset(), commit_every=2)
    assert changes == [("a", [2, None]), ("a", [4, 2]), ("a", [5, 4])]


def test_the_first_change_of_an_aggregate_has_no_old_value() -> None:
    topology = changes_of(
        lambda builder: builder.stream("in", value=int).group_by_key().count(store="n")
    )
    assert told(topology, [("in", "a", 7, 0), ("in", "a", 7, 1)], frozenset()) == [
        ("a", [1, None]),
        ("a", [2, 1]),
    ]


def test_a_session_updated_within_its_millisecond_has_its_old_value() -> None:
    records = [("in", "a", 1, 0), ("in", "a", 1, 0), ("in", "a", 1, 2)]
    changes = [change for _, change in told(changes_of(TABLES["sessions"]), records, frozenset())]
    assert changes == [[1, None], [2, 1], [None, 2], [3, None]]


def test_an_aggregator_that_changes_its_argument_gives_the_old_value_as_it_was() -> None:
    def build(builder: StreamsBuilder) -> KTable[str, list[int]]:
        def add(key: str, value: int, found: list[int]) -> list[int]:
            found.append(value)
            return found

        values = builder.stream("in", value=int).group_by_key()
        return values.aggregate(list, add, value=serdes.json_of(list[int]), store="lists")

    assert told(changes_of(build), [("in", "a", 7, 0), ("in", "a", 8, 1)], frozenset()) == [
        ("a", [[7], None]),
        ("a", [[7, 8], [7]]),
    ]


def test_a_change_is_a_pair_with_names_and_headers_stay() -> None:
    builder = StreamsBuilder()
    seen: list[Change[int]] = []
    changes = (
        table(builder).to_change_stream(name="changes").peek(lambda key, one: seen.append(one))
    )
    changes.map_values(lambda change: change.new, value=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=3, headers=[("h", b"1")])
        assert seen == [Change(new=1, old=None)]
        (sent,) = driver.outputs
        assert (sent.timestamp, sent.headers) == (3, [("h", b"1")])


def test_a_table_without_a_store_has_no_old_values_and_says_so() -> None:
    with pytest.raises(TopologyError, match=r"needs a store: .*to_change_stream"):
        StreamsBuilder().table("in", value=int).to_change_stream()


def test_a_change_that_was_not_committed_comes_again_with_the_same_old_value(
    tmp_path: Path,
) -> None:
    cluster = unhurried({"in": 1, "out": 1})
    for value in (5, 6, 7):
        cluster.produce("in", b"a", value.to_bytes(8, "big"), timestamp=value)
    fails = [True]

    def text_of(change: Change[int]) -> str:
        if change.new == 7 and fails:
            raise ValueError("not yet")
        return f"{change.old} -> {change.new}"

    def application() -> Application:
        builder = StreamsBuilder()
        table(builder).to_change_stream().map_values(text_of, value=str).to("out")
        return Application(
            builder.build(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            commit_interval=TEN,
            cluster=cluster,
        )

    with pytest.raises(ProcessingError, match="not yet"):
        application().run(handle_signals=False)
    fails.clear()
    with application():
        cluster.wait_for_records("out", 3, PATIENCE_S)
    values = [record.value() for record in cluster.records("out")]
    assert values == [b"None -> 5", b"5 -> 6", b"6 -> 7"]
