"""A kind of store that one file defines and registers is one everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from logstate import Application, StoreAccessError, TopologyError, TopologyTestDriver, serdes
from logstate.changelog.reading.blocks import block_of
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.changelog.store_fingerprint import fingerprint
from logstate.changelog.stores.kinds import KINDS, build_store, register
from logstate.cli.shared.stored_logs import newest_of_key
from logstate.contracts.records import TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.serdes.described_keys import lookup_key
from logstate.testing import FakeCluster
from logstate.topics.displayed_records import RecordReader, log_of_entry
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.changelog.stores.toy_kind import LARGEST, largest_values

SPEC = StoreSpec("best", "largest", serdes.string, serdes.int64)
PUTS = [("ada", 3), ("bob", 5), ("ada", 7), ("ada", 4), ("bob", -1), ("cy", 1)]
BEST = [("ada", 7), ("cy", 1)]


@contextmanager
def running(cluster: FakeCluster, state_dir: Path) -> Iterator[Application]:
    with Application(
        largest_values(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        serve="127.0.0.1:0",
    ) as app:
        yield app


def fed() -> FakeCluster:
    cluster = unhurried({"in": 1, "out": 1})
    encode = serdes.int64.serializer("in", False)
    for key, value in PUTS:
        cluster.produce("in", key.encode(), encode(value), timestamp=9)
    return cluster


def found(app: Application) -> list[tuple[str, int]]:
    try:
        return list(app.store("best").all())
    except StoreAccessError:  # not yet
        return []


# --- the runtime ----------------------------------------------------------------------------------


def test_a_processor_uses_it_and_a_restore_brings_it_back() -> None:
    with TopologyTestDriver(largest_values()) as driver:
        for key, value in PUTS:
            driver.pipe("in", key, value)
        assert list(driver.store("best").all()) == BEST
        driver.crash(loses_disk=True)
        assert list(driver.store("best").all()) == BEST
        driver.pipe("in", "ada", 2)
        assert driver.read("out", value=int)[-1] == ("ada", 7)
        logged = driver.changelog("app-best-changelog")
    assert (logged[-1].key, logged[-1].value) == (b"*ada", row(4, 7))


def test_queries_http_and_a_restore_on_an_empty_disk(tmp_path: Path) -> None:
    cluster = fed()
    with running(cluster, tmp_path / "first") as app:
        until(lambda: found(app) == BEST)
        store = app.store("best")
        assert (store.get("ada"), store.get("bob")) == (7, None)
        assert list(store.range("b", "d")) == [("cy", 1)]
        with httpx.Client(
            base_url=app.all_instances()[0].host, trust_env=False, timeout=PATIENCE_S
        ) as http:
            check_http(http)
    with running(cluster, tmp_path / "second") as app:
        until(lambda: found(app) == BEST)


def check_http(http: httpx.Client) -> None:
    (described,) = http.get("/stores").json()["stores"]
    assert (described["name"], described["kind"]) == ("best", "largest")
    assert http.get("/stores/best/ada").json()["row"] == 7
    assert http.get("/stores/best/bob").status_code == 404
    lines = [json.loads(line) for line in http.get("/stores/best?lower=b").text.splitlines()]
    assert [line for line in lines if "key" in line] == [{"key": "cy", "value": 1}]
    refused = http.get("/stores/best/ada?start=1")
    assert refused.status_code == 400
    assert "no meaning for this read of a largest store" in refused.text
    with http.stream("GET", "/stores/best/changes?from=beginning") as response:
        change = next(line for line in response.iter_lines() if line.startswith("data: "))
    assert json.loads(change.removeprefix("data: "))["key"] in {"ada", "bob", "cy"}


# --- its changelog --------------------------------------------------------------------------------


class Logged:
    """A record of the changelog, as a consumer returns it."""

    def __init__(self, offset: int, key: bytes, value: bytes) -> None:
        self._offset, self._key, self._value = offset, key, value

    def topic(self) -> str:
        return "app-best-changelog"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 9

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None


def row(puts: int, value: int) -> bytes:
    return puts.to_bytes(8, "big") + value.to_bytes(8, "big")


LOG: list[Any] = [Logged(0, b"*ada", row(1, 3)), Logged(1, b"*cy", row(1, 1)),
                  Logged(2, b"*ada", row(3, 7))]  # fmt: skip


def test_commands_find_a_key_and_show_its_value() -> None:
    log = log_of_entry("best", fingerprint(SPEC), "app-best-changelog", 1)
    newest = newest_of_key(LOG, log, lookup_key("ada", log.key, {}).is_it)
    (shown,) = (RecordReader(log, log.key, log.value).shown(one) for one in newest.values())
    assert (shown.key, shown.value, shown.offset) == ("ada", 7, 2)


def test_readers_of_the_changelog_have_its_columns() -> None:
    table = StoreTable({**fingerprint(SPEC), "name": "best"})
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    batch = record_batch(columns, block_of(TopicPartition("app-best-changelog", 0), LOG[1:]))
    assert batch.to_pylist() == [
        {"key": "cy", "value": 1, "puts": 1},
        {"key": "ada", "value": 7, "puts": 3},
    ]


# --- the registry ---------------------------------------------------------------------------------


def test_a_name_belongs_to_one_kind() -> None:
    register(LARGEST)  # once more
    with pytest.raises(ValueError, match="named 'largest' is registered already"):
        register(type(LARGEST)("largest", LARGEST.store))
    assert KINDS["largest"] is LARGEST


def test_an_unknown_kind_is_refused_and_the_known_ones_are_listed() -> None:
    unknown: Any = StoreSpec("best", "smallest", serdes.string, serdes.int64)
    with pytest.raises(
        TopologyError, match=r"unknown store kind 'smallest' .*key_value, .*largest"
    ):
        build_store(unknown, unknown, unknown, unknown)
