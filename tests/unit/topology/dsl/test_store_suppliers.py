"""Where the stores of the DSL keep their rows: in memory, or only those that were used last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import serdes
from logstate.app.application import Application
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)
Build = Callable[[StreamsBuilder, Materialized], KTable[Any, Any]]


def counted(windows: Any) -> Build:
    def build(builder: StreamsBuilder, store: Materialized) -> KTable[Any, Any]:
        grouped = builder.stream("in", value=int).group_by_key()
        counts = grouped if windows is None else grouped.windowed_by(windows)
        return counts.count(store=store)  # type: ignore[no-any-return]

    return build


def joined(builder: StreamsBuilder, store: Materialized) -> KTable[Any, Any]:
    left = builder.table("in", value=int, store=Materialized("left", in_memory=True))
    right = left.map_values(lambda n: n * 2)
    return left.join(right, lambda a, b: a + b, store=store, value=int)


TABLES: dict[str, Build] = {
    "table": lambda builder, store: builder.table("in", value=int, store=store),
    "derived": lambda builder, store: (
        builder.stream("in", value=int).to_table(store=store).map_values(lambda n: n + 1)
    ),
    "joined": joined,
    "counts": counted(None),
    "windows": counted(TumblingWindows(size=TEN, grace=TEN)),
    "sliding": counted(SlidingWindows(difference=TEN, grace=TEN)),
    "sessions": counted(SessionWindows(gap=TEN, grace=TEN)),
}
RECORDS = [(key, place, place * 4) for place, key in enumerate("abcabcaabbcc")]
KINDS_OF_LRU = {"table", "derived", "joined", "counts"}


def topology_of(build: Build, **options: Any) -> Topology:
    builder = StreamsBuilder()
    rows = build(builder, Materialized("rows", **options))
    rows.to_stream(lambda key, value: str(key), key=str).to("out", value=serdes.json)
    return builder.build()


def results(topology: Topology, *, state_dir: Path | None = None, crash_at: int = -1) -> Any:
    with TopologyTestDriver(topology, state_dir=state_dir) as driver:
        for place, record in enumerate(RECORDS):
            driver.pipe_all("in", [record])
            if place == crash_at:
                driver.crash()
        # Windows in memory are scanned in another order, as in Kafka Streams.
        return driver.read("out", value=serdes.json), sorted(driver.store("rows").all())


@pytest.mark.parametrize("crash_at", [-1, 2, 7])
@pytest.mark.parametrize("build", TABLES.values(), ids=TABLES)
def test_a_store_in_memory_has_the_rows_of_one_on_the_disk_and_no_disk(
    build: Build, crash_at: int, tmp_path: Path
) -> None:
    on_disk = results(topology_of(build))
    topology = topology_of(build, in_memory=True)
    assert all(spec.in_memory for spec in topology.stores.values())
    assert results(topology, state_dir=tmp_path, crash_at=crash_at) == on_disk
    assert not list(tmp_path.rglob("*.sst"))
    assert not list(tmp_path.rglob("CURRENT"))  # of a RocksDB


@pytest.mark.parametrize("crash_at", [-1, 2, 7])
@pytest.mark.parametrize("name", sorted(KINDS_OF_LRU))
def test_a_capacity_that_is_enough_changes_nothing(name: str, crash_at: int) -> None:
    build = TABLES[name]
    assert results(topology_of(build, capacity=3), crash_at=crash_at) == results(topology_of(build))


@pytest.mark.parametrize("crash_at", [-1, 0, 1, 2, 3])
def test_a_table_with_a_capacity_forgets_with_a_tombstone_and_tells_nobody(crash_at: int) -> None:
    topology = topology_of(TABLES["table"], capacity=2)
    with TopologyTestDriver(topology) as driver:
        for place, (key, value) in enumerate((("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5))):
            driver.pipe("in", key, value, timestamp=place)
            if place == crash_at:
                driver.crash()
        assert driver.read("out", value=serdes.json) == [
            ("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5),
        ]  # fmt: skip
        rows = [(key, row.value, row.timestamp) for key, row in driver.store("rows").all()]
        assert rows == [("c", 4, 3), ("d", 5, 4)]
        logged = [
            (one.key, one.value, one.timestamp) for one in driver.changelog("app-rows-changelog")
        ]
    numbers = {number: number.to_bytes(8, "big") for number in range(6)}
    assert logged == [
        (b"a", numbers[1], 0), (b"b", numbers[2], 1), (b"a", numbers[3], 2),
        (b"b", None, 3), (b"c", numbers[4], 3), (b"a", None, 4), (b"d", numbers[5], 4),
    ]  # fmt: skip


def test_a_join_finds_what_was_used_last() -> None:
    builder = StreamsBuilder()
    names = builder.table("names", value=str, store=Materialized("names", capacity=2))
    clicks = builder.stream("in", value=int)
    clicks.left_join(names, lambda click, name: f"{click} {name}").to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("names", [("a", "Ada", 0), ("b", "Bob", 1)])
        driver.pipe("in", "a", 1, timestamp=2)  # a use: Bob is the next to go
        driver.pipe("names", "c", "Cleo", timestamp=3)
        driver.pipe_all("in", [("a", 2, 4), ("b", 3, 5), ("c", 4, 6)])
        assert [one for _, one in driver.read("out", value=str)] == [
            "1 Ada", "2 Ada", "3 None", "4 Cleo",
        ]  # fmt: skip


def test_an_aggregate_of_a_key_that_was_forgotten_begins_anew() -> None:
    with TopologyTestDriver(topology_of(TABLES["counts"], capacity=1)) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 1, 1), ("b", 1, 2), ("a", 1, 3)])
        assert driver.read("out", value=serdes.json) == [("a", 1), ("a", 2), ("b", 1), ("a", 1)]


def test_a_foreign_key_join_reads_the_rows_of_a_store_with_a_capacity() -> None:
    builder = StreamsBuilder()
    orders = builder.table("in", value=str, store=Materialized("orders", capacity=5))
    users = builder.table("users", value=str, store=Materialized("users", capacity=5))
    rows = orders.join(users, lambda a, b: a + b, foreign_key=lambda order: order[0], name="fk")
    rows.to_stream().to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("users", "u", "-Ada", timestamp=0)
        driver.pipe("in", "o1", "u1", timestamp=1)
        driver.pipe("users", "u", "-Bob", timestamp=2)
        assert driver.read("out", value=str) == [("o1", "u1-Ada"), ("o1", "u1-Bob")]


def test_a_table_that_forgets_has_a_changelog_beside_its_source_topic() -> None:
    builder = StreamsBuilder()
    builder.table("in", value=int, store=Materialized("few", capacity=2))
    builder.table("other", value=int, store="all")
    stores = builder.build("all").stores
    assert (stores["few"].source_topic, stores["all"].source_topic) == (None, "other")


def until_it_holds(counts: dict[str, int], app: Application) -> None:
    """What is committed can be read a moment later."""
    rows = app.store("rows")
    until(lambda: {key: row.value for key, row in rows.all()} == counts)


@pytest.mark.parametrize("options", [{"in_memory": True}, {"capacity": 2}], ids=str)
def test_an_application_restores_all_of_a_store_in_memory_at_each_start(
    options: dict[str, Any], tmp_path: Path
) -> None:
    cluster = unhurried({"in": 1, "out": 1})

    def application() -> Application:
        return Application(
            topology_of(TABLES["counts"], **options),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            cluster=cluster,
        )

    for number, keys in enumerate((b"ab", b"ba", b"ab"), 1):
        for key in keys:
            cluster.produce("in", bytes([key]), (1).to_bytes(8, "big"), timestamp=number)
        with application() as running:
            cluster.wait_for_records("out", 2 * number, PATIENCE_S)
            until_it_holds({"a": number, "b": number}, running)
    assert not list(tmp_path.rglob("*.sst"))
