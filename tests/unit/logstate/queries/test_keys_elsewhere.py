"""Rows of keys that another producer placed: by CRC32, as librdkafka's default does."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
)
from logstate.contracts.errors import ConfigError, StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.serving import Serving
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from tests import patience
from tests.unit.logstate.instances import PARTITIONS

KEYS = [f"u{number}" for number in range(40)]
SERVING = Serving("127.0.0.1:0", token="t0ken", page_rows=2)
Placing = Callable[[bytes, int], int]


def by_crc32(key: bytes, count: int) -> int:
    return zlib.crc32(key) % count


def tables() -> Topology:
    builder = StreamsBuilder()
    builder.table("in", value=str, store="counts")
    events = builder.stream("events", value=str).group_by_key()
    second = timedelta(seconds=1)
    events.windowed_by(TumblingWindows(size=second)).count(store="windows")
    events.windowed_by(SessionWindows(gap=second)).count(store="sessions")
    history = Materialized("versions", history=timedelta(hours=1))
    builder.table("history", value=str, store=history)
    return builder.build()


def filled(place: Placing, keys: list[str] = KEYS) -> FakeCluster:
    cluster = FakeCluster(dict.fromkeys(["in", "events", "history"], PARTITIONS))
    for topic in ("in", "events", "history"):
        for key in keys:
            partition = place(key.encode(), PARTITIONS)
            cluster.produce(topic, key.encode(), b"v", partition=partition, timestamp=5)
    return cluster


def instance(cluster: FakeCluster, state_dir: Path, **settings: Any) -> Application:
    return Application(
        tables(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        **settings,
    )


#: what finds the row of a key in each store
READS: dict[str, tuple[Any, ...]] = {
    "counts": ("get",),
    "windows": ("fetch", 0),
    "sessions": ("fetch_session", 5, 5),
    "versions": ("get",),
}


def shows_all(apps: list[Application], cluster: FakeCluster) -> bool:
    """Whether each row is seen in the partition that has it: a moment after its commit it is."""
    placed = {
        record.key(): partition
        for partition in range(PARTITIONS)
        for record in cluster.records("in", partition)
    }
    return all(
        any(_is_seen(app, name, read, key, partition, *arguments) for app in apps)
        for key, partition in placed.items()
        for name, (read, *arguments) in READS.items()
    )


def _is_seen(
    app: Application, store: str, read: str, key: bytes, partition: int, *arguments: Any
) -> bool:
    try:
        found = getattr(app.store(store), read)(key.decode(), *arguments, partition=partition)
    except StoreUnavailableError:
        return False
    return found is not None


def has_read(app: Application, cluster: FakeCluster) -> bool:
    ends = {p: len(cluster.records("in", p)) for p in range(PARTITIONS)}
    at = {p: cluster.committed_offset("app", "in", p) or 0 for p in ends}
    others = [
        cluster.committed_offset("app", topic, p) or 0
        for topic in ("events", "history")
        for p in ends
    ]
    return at == ends and sum(others) == 2 * sum(ends.values())


@contextmanager
def alone(cluster: FakeCluster, state_dir: Path) -> Iterator[Application]:
    with instance(cluster, state_dir) as app:
        patience.until(lambda: has_read(app, cluster))
        app.wait_until_running(timedelta(seconds=patience.PATIENCE_S))
        patience.until(lambda: shows_all([app], cluster), "not every row is shown")
        yield app


@contextmanager
def shared(cluster: FakeCluster, path: Path) -> Iterator[list[Application]]:
    with ExitStack() as stack:
        apps = [stack.enter_context(instance(cluster, path / name, serve=SERVING)) for name in "ab"]
        patience.until(lambda: has_read(apps[0], cluster))
        patience.until(
            lambda: all(len(_partitions(app)) == PARTITIONS // 2 for app in apps), "not shared"
        )
        patience.until(lambda: len(apps[0].all_instances()) == 2)
        patience.until(lambda: shows_all(apps, cluster), "not every row is shown")
        yield apps


def _partitions(app: Application) -> list[int]:
    return app.store("counts").partitions


def test_every_row_is_found_by_its_key(tmp_path: Path) -> None:
    with alone(filled(by_crc32), tmp_path) as app:
        rows, windows = app.store("counts"), app.store("windows")
        sessions, versions = app.store("sessions"), app.store("versions")
        for key in KEYS:
            assert rows.get(key).value == "v"
            assert windows.fetch(key, 0).value == 1
            assert len(list(windows.fetch_range(key, 0, 10))) == 1
            assert len(list(windows.fetch_range(key, 0, 10, reverse=True))) == 1
            assert len(list(sessions.fetch(key))) == 1
            assert len(list(sessions.find_sessions(key, 0, 10))) == 1
            assert sessions.fetch_session(key, 5, 5) is not None
            assert versions.get(key).value == "v"
            assert versions.get(key, 6).value == "v"
            assert len(list(versions.versions(key))) == 1
        assert rows.get("nobody") is None
        assert list(sessions.fetch("nobody")) == []


def test_a_row_is_found_after_a_restart(tmp_path: Path) -> None:
    cluster = filled(by_crc32)
    with alone(cluster, tmp_path / "first"):
        pass
    with alone(cluster, tmp_path / "second") as app:
        assert all(app.store("counts").get(key).value == "v" for key in KEYS)


def test_a_named_partition_is_the_only_one_that_is_read(tmp_path: Path) -> None:
    with alone(filled(by_crc32), tmp_path) as app:
        rows = app.store("counts")
        for key in KEYS:
            right = by_crc32(key.encode(), PARTITIONS)
            assert rows.get(key, partition=right).value == "v"
            assert rows.get(key, partition=(right + 1) % PARTITIONS) is None


@pytest.mark.parametrize("place", [by_crc32, partition_of])
def test_all_instances_together_find_every_row(place: Placing, tmp_path: Path) -> None:
    with shared(filled(place), tmp_path) as apps:
        for app in apps:
            rows, sessions = app.remote_store("counts"), app.remote_store("sessions")
            assert all(rows.get(key).value == "v" for key in KEYS)
            assert all(len(list(sessions.fetch(key))) == 1 for key in KEYS)
            assert rows.get("nobody") is None
            answer = rows.answer("get", KEYS[3])
            assert answer.partition == place(KEYS[3].encode(), PARTITIONS)


def test_none_is_never_said_of_a_row_that_another_instance_has(tmp_path: Path) -> None:
    with shared(filled(by_crc32), tmp_path) as apps:
        for app in apps:
            rows = app.store("counts")
            for key in KEYS:
                if by_crc32(key.encode(), PARTITIONS) in rows.partitions:
                    assert rows.get(key).value == "v"
                else:
                    with pytest.raises(StoreUnavailableError):
                        rows.get(key)
            guessed = next(
                key
                for key in KEYS
                if partition_of(key.encode(), PARTITIONS) in rows.partitions
                and by_crc32(key.encode(), PARTITIONS) not in rows.partitions
            )
            with pytest.raises(StoreUnavailableError, match=r"murmur2.*remote_store.*partition="):
                rows.get(guessed)


def test_one_row_among_many_that_another_producer_placed_is_not_denied(tmp_path: Path) -> None:
    """No row that an instance sees tells it that one elsewhere is not where its hash says."""
    strayed = KEYS[-1]
    right = partition_of(strayed.encode(), PARTITIONS)
    cluster = filled(partition_of, KEYS[:-1])
    for topic in ("in", "events", "history"):
        other = (right + 1) % PARTITIONS
        cluster.produce(topic, strayed.encode(), b"v", partition=other, timestamp=5)
    with shared(cluster, tmp_path) as apps:
        for app in apps:
            has_it = (right + 1) % PARTITIONS in _partitions(app)
            for name, (read, *arguments) in READS.items():
                try:
                    found = getattr(app.store(name), read)(strayed, *arguments)
                except StoreUnavailableError:
                    assert not has_it
                else:
                    assert found is not None


def test_an_empty_instance_denies_nothing(tmp_path: Path) -> None:
    with shared(filled(by_crc32, KEYS[:1]), tmp_path) as apps:
        for app in apps:
            if by_crc32(KEYS[0].encode(), PARTITIONS) not in _partitions(app):
                with pytest.raises(StoreUnavailableError):
                    app.store("counts").get(KEYS[0])
                with pytest.raises(StoreUnavailableError):
                    app.store("windows").fetch_range(KEYS[0], 0, 10)


def test_whoever_knows_how_keys_are_placed_is_told_that_a_row_is_nowhere(tmp_path: Path) -> None:
    with shared(filled(partition_of), tmp_path) as apps:
        for app in apps:
            rows = app.store("counts")
            here = next(k for k in (f"no{n}" for n in range(99)) if _guess(k) in rows.partitions)
            with pytest.raises(StoreUnavailableError, match=r"placed_by='murmur2'"):
                rows.get(here)
            assert app.store("counts", placed_by="murmur2").get(here) is None
            assert app.remote_store("counts").get(here) is None
            with pytest.raises(ConfigError, match="unknown placed_by='crc32'"):
                app.store("counts", placed_by="crc32")  # type: ignore[arg-type]


def _guess(key: str) -> int:
    return partition_of(key.encode(), PARTITIONS)
