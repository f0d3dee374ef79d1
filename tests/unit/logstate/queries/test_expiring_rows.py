"""Queries of a store with a TTL: here, from elsewhere, over HTTP, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from logstate import Application, Processor, StreamsBuilder, Topology, key_value_store
from logstate.contracts.errors import StoreAccessError
from logstate.contracts.records import Record
from logstate.testing import FakeCluster
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried

TTL = timedelta(milliseconds=10)
SEEN = key_value_store("seen", str, str, ttl=TTL)


class Keep(Processor[str, str, str, str]):
    """Keeps the last value of a key; an empty one only advances stream time."""

    def process(self, record: Record[str, str]) -> None:
        if record.value:
            self.context.store(SEEN).put(record.key, record.value)


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Keep, stores=SEEN)
    return builder.build()


@contextmanager
def running(cluster: FakeCluster, state_dir: Path) -> Iterator[Application]:
    with Application(
        topology(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        serve="127.0.0.1:0",
    ) as app:
        yield app


def found(app: Application) -> Any:
    try:
        return dict(app.store("seen").all())
    except StoreAccessError:  # not yet
        return None


def check(app: Application) -> None:
    """Only b and c have not expired."""
    for store in (app.store(SEEN), app.remote_store(SEEN)):
        assert [store.get(key) for key in "abc"] == [None, "2", "3"]
        assert list(store.range("a", "b")) == [("b", "2")]
        assert store.approximate_num_entries() == 2
    with httpx.Client(
        base_url=app.all_instances()[0].host, trust_env=False, timeout=PATIENCE_S
    ) as http:
        assert http.get("/stores/seen/a").status_code == 404
        assert http.get("/stores/seen/b").json()["row"] == "2"
        assert "1" not in http.get("/stores/seen").text


def test_no_query_finds_a_row_that_has_expired(tmp_path: Path) -> None:
    cluster = unhurried({"in": 1})
    for key, value, time in ((b"a", b"1", 100), (b"b", b"2", 105), (b"c", b"3", 110)):
        cluster.produce("in", key, value, timestamp=time)
    with running(cluster, tmp_path / "first") as app:
        until(lambda: found(app) == {"b": "2", "c": "3"})
        check(app)
    with running(cluster, tmp_path / "first") as app:
        until(lambda: found(app) == {"b": "2", "c": "3"})
        check(app)
    with running(cluster, tmp_path / "second") as app:
        until(lambda: found(app) == {"b": "2", "c": "3"})
        check(app)
        cluster.produce("in", b"d", b"", timestamp=116)
        until(lambda: found(app) == {"c": "3"})
