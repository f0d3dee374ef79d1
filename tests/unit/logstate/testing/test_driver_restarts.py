"""One driver after another on a state directory, with the same topology or another one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    TumblingWindows,
    until_time_limit,
)
from logstate.contracts.errors import ProcessingError, StateDirectoryError, UpgradeError
from logstate.topology import Materialized


def driver(topology: Topology, path: Path, **options: Any) -> TopologyTestDriver:
    return TopologyTestDriver(topology, state_dir=path, **options)


def counts(store: str = "counts", *, in_memory: bool = False) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).group_by(str.upper, key=str, name="words")
    counted = words.count(store=Materialized(store, in_memory=in_memory))
    counted.to_stream().to("out", value=int)
    return builder.build()


def windows(*, store: str = "counts", size_s: int = 10) -> Topology:
    builder = StreamsBuilder()
    window = TumblingWindows(size=timedelta(seconds=size_s), grace=timedelta(0))
    words = builder.stream("in", key=str, value=str).group_by_key()
    words.windowed_by(window).count(store=store, emit="close").to_stream().to("out", value=int)
    return builder.build()


def piped(topology: Topology, path: Path, *words: str, **options: Any) -> list[Any]:
    with driver(topology, path, **options) as running:
        for word in words:
            running.pipe("in", "k", word)
        return running.read("out", value=int)


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_driver_goes_on_where_the_one_before_ended(tmp_path: Path, in_memory: bool) -> None:
    topology = counts(in_memory=in_memory)
    assert piped(topology, tmp_path, "a", "b", "a") == [("A", 1), ("B", 1), ("A", 2)]
    topology = counts(in_memory=in_memory)
    assert piped(topology, tmp_path, "a") == [("A", 3)]
    with driver(counts(in_memory=in_memory), tmp_path) as third:
        third.crash(loses_disk=True)
        third.pipe("in", "k", "a")
        assert third.read("out", value=int) == [("A", 4)]


def test_it_commits_what_was_not_committed(tmp_path: Path) -> None:
    options = {"commit_every": 100, "apply_every": 100}
    assert piped(counts(), tmp_path, "a", "b", "a", **options)[-1] == ("A", 2)
    assert piped(counts(), tmp_path, "a") == [("A", 3)]


def test_clocks_go_on(tmp_path: Path) -> None:
    with driver(windows(), tmp_path, wall_clock_start_ms=5) as first:
        first.pipe("in", "k", "a", timestamp=25_000)
        first.advance_wall_clock(7)
    with driver(windows(), tmp_path) as second:
        assert second.clock.wall_clock_ms() == 12
        second.pipe("in", "k", "late", timestamp=1_000)  # its window was closed before
        assert second.dropped_total == 1


def test_global_tables_are_there_again(tmp_path: Path) -> None:
    def looked_up() -> Topology:
        builder = StreamsBuilder()
        names = builder.global_table("names", key=str, value=str, store="names")
        stream = builder.stream("in", key=str, value=str)
        joined = stream.join(names, lambda _, n: n, key_mapper=lambda k, _: k, value=str)
        joined.to("out")
        return builder.build()

    with driver(looked_up(), tmp_path) as first:
        first.pipe("names", "k", "Ada")
    with driver(looked_up(), tmp_path) as second:
        second.pipe("in", "k", "x")
        assert second.read("out", value=str) == [("k", "Ada")]


def test_a_topology_that_does_not_fit_is_refused_as_a_start_is(tmp_path: Path) -> None:
    piped(windows(size_s=10), tmp_path, "a")
    with pytest.raises(UpgradeError, match="window_size_ms: stored 10000, declared 60000"):
        driver(windows(size_s=60), tmp_path)
    assert piped(windows(size_s=10), tmp_path, "a") == []


def test_decisions_are_tried_here_as_well(tmp_path: Path) -> None:
    piped(counts("old"), tmp_path, "a", "a")
    with pytest.raises(UpgradeError, match="renamed="):
        driver(counts(), tmp_path)
    assert piped(counts(), tmp_path, "a", renamed={"old": "counts"}) == [("A", 3)]
    assert piped(counts("new"), tmp_path, "a", forget={"counts"}) == [("A", 1)]


def test_two_drivers_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        driver(counts(), tmp_path),
        pytest.raises(StateDirectoryError, match="open elsewhere"),
    ):
        driver(counts(), tmp_path)


def test_a_record_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing(*, fails: bool) -> Topology:
        builder = StreamsBuilder()
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        counted = grouped.count(store="counts").to_stream()
        counted.map_values(lambda n: 1 // 0 if fails else n, value=int).to("out")
        return builder.build()

    first = driver(failing(fails=True), tmp_path)
    with pytest.raises(ProcessingError), first:
        first.pipe("in", "k", "a")
    assert piped(failing(fails=False), tmp_path, "a") == [("k", 1)]


def test_a_driver_that_was_not_closed_is_found_out(tmp_path: Path) -> None:
    import gc

    lost = driver(counts(), tmp_path)
    lost.pipe("in", "k", "a")
    lost.task.state.close()  # as if the process had ended
    del lost
    gc.collect()
    with pytest.raises(StateDirectoryError, match="was not closed"):
        driver(counts(), tmp_path)


def test_a_renamed_suppression_keeps_its_clock(tmp_path: Path) -> None:
    def slowed(name: str) -> Topology:
        builder = StreamsBuilder()
        table = builder.table("in", key=str, value=str, store="rows")
        until = until_time_limit(timedelta(milliseconds=10))
        table.suppress(until, name=name).to_stream().to("out")
        return builder.build()

    with driver(slowed("old"), tmp_path) as first:
        first.pipe("in", "a", "waits", timestamp=100)
    with driver(slowed("new"), tmp_path, renamed={"old-store": "new-store"}) as second:
        second.pipe("in", "b", "is due", timestamp=80)
        assert second.read("out", value=str) == [("b", "is due")]
