"""A whole application on the fake cluster, with threads and the machine's clock."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import RecordError, StoreUnavailableError
from logstate.topology import StreamsBuilder, Topology
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried

SHORT = timedelta(milliseconds=10)


def counting() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines", key=str, value=str).select_key(lambda _, word: word, key=str)
    counts = words.group_by_key().count(store="counts")
    counts.to_stream().map_values(str, value=str).to("counts", key=str, value=str)
    return builder.build()


def test_an_application_runs_on_it(tmp_path: Path) -> None:
    cluster = unhurried({"lines": 2, "counts": 2})
    for i in range(30):
        cluster.produce("lines", f"k{i}".encode(), f"w{i % 3}".encode(), timestamp=i + 1)
    with Application(
        counting(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=SHORT,
        cluster=cluster,
    ):
        cluster.wait_for_records("counts", 30, PATIENCE_S)
    latest = {r.key(): r.value() for r in cluster.records("counts")}
    assert latest == {b"w0": b"10", b"w1": b"10", b"w2": b"10"}


def test_two_instances_share_the_work_and_one_takes_over(tmp_path: Path) -> None:
    cluster = unhurried({"lines": 4, "counts": 4})
    instances = [
        Application(
            counting(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path / name,
            commit_interval=SHORT,
            cluster=cluster,
        )
        for name in ("a", "b")
    ]
    first, second = instances
    with first:
        with second:
            for i in range(40):
                cluster.produce("lines", f"k{i}".encode(), f"w{i % 7}".encode(), timestamp=i + 1)
            cluster.wait_for_records("counts", 40, PATIENCE_S)
        for i in range(40, 80):
            cluster.produce("lines", f"k{i}".encode(), f"w{i % 7}".encode(), timestamp=i + 1)
        cluster.wait_for_records("counts", 80, PATIENCE_S)
    found = Counter((r.key(), r.value()) for r in cluster.records("counts"))
    wanted = Counter(f"w{i % 7}".encode() for i in range(80))
    assert found == Counter(
        (word, str(n + 1).encode()) for word, count in wanted.items() for n in range(count)
    )


def test_a_pattern_is_resolved_at_start_and_new_topics_are_read_after_a_restart(
    tmp_path: Path,
) -> None:
    builder = StreamsBuilder()
    words = builder.stream(re.compile(r"lines-.*"), key=str, value=str)
    counts = words.group_by(lambda word: word, name="words", key=str).count(store="counts")
    counts.to_stream().map_values(str, value=str).to("totals", key=str, value=str)
    keyed = words.group_by_key().count(store="per-key")
    topology = builder.build()
    assert keyed.name
    cluster = unhurried({"lines-a": 2, "other": 1, "totals": 2})

    def run_until(records: int) -> None:
        with Application(
            topology,
            application_id="lines-",  # the pattern would match its internal topics too
            bootstrap="fake:9092",
            state_dir=tmp_path,
            commit_interval=SHORT,
            cluster=cluster,
        ) as app:
            cluster.wait_for_records("totals", records, PATIENCE_S)
            until(lambda: app.store("per-key").get("k") is not None)

    cluster.produce("lines-a", b"k", b"x", timestamp=1)
    cluster.produce("other", b"k", b"x", timestamp=1)
    run_until(1)
    cluster.create_topic("lines-b", 2)
    cluster.produce("lines-b", b"k", b"x", timestamp=2)
    run_until(2)
    assert [r.value() for r in cluster.records("totals")] == [b"1", b"2"]


def failing(builder: StreamsBuilder) -> None:
    names = builder.global_table("names", key=str, value=str, store="names")
    lines = builder.stream("lines", key=str, value=str)
    lines.join(names, lambda word, name: f"{word} {name}", key_mapper=lambda key, _: key)
    lines.map_values(int, value=int).group_by_key().count(store="counts")


@pytest.mark.parametrize("store", ["counts", "names"])
def test_a_query_after_the_application_failed_says_that_it_ended_and_why(
    tmp_path: Path, store: str
) -> None:
    cluster = unhurried({"lines": 1, "names": 1})
    builder = StreamsBuilder()
    failing(builder)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
    )
    app.start()
    cluster.produce("lines", b"k", b"no number", timestamp=1)
    assert _ended(app)
    with pytest.raises(RecordError):
        app.close()
    with pytest.raises(
        StoreUnavailableError,
        match=rf"store '{store}' cannot be read: application 'app' has ended, because it failed:"
        r" processing a record failed: topic 'lines', partition 0, offset 0.*start this one again",
    ):
        app.store(store).get("k")


def test_a_query_after_the_end_says_that_it_was_stopped(tmp_path: Path) -> None:
    with Application(
        counting(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=unhurried({"lines": 1, "counts": 1}),
    ) as app:
        store = app.store("counts")
    with pytest.raises(StoreUnavailableError, match="'app' has ended, because it was stopped"):
        store.get("w")
    with pytest.raises(StoreUnavailableError, match="'app' has ended, because it was stopped"):
        list(store.all())


def _ended(app: Application) -> bool:
    assert app._thread is not None
    app._thread.join(PATIENCE_S)
    return not app.is_alive


def test_an_instance_that_is_spare_is_told_from_one_that_was_not_told_yet(tmp_path: Path) -> None:
    cluster = unhurried({"lines": 1, "counts": 1})
    first, second = (
        Application(
            counting(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path / name,
            cluster=cluster,
        )
        for name in ("a", "b")
    )
    assert not first.is_spare
    with first, second:
        until(lambda: first.is_spare or second.is_spare)
        spare, busy = (first, second) if first.is_spare else (second, first)
        until(lambda: "running" in busy.tasks().values())
        assert spare.tasks() == {}
        assert spare.is_ready().reason == "it is idle: all tasks belong to other instances"
        assert not busy.is_spare
