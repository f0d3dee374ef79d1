"""Lists, maps, sets and counters in queries, over HTTP, and for readers of changelogs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from logstate import (
    Application,
    StoreAccessError,
    StoreArgumentError,
    TopologyTestDriver,
    map_store,
    serdes,
)
from logstate.changelog.reading.blocks import block_of
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.changelog.spark.kafka_sql import row_expressions
from logstate.changelog.store_fingerprint import fingerprint, store_changes
from logstate.changelog.stores.kinds import kind_of
from logstate.cli.shared.stored_logs import newest_of_key
from logstate.contracts.compatibility import Verdict
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.http.wire import StoreCodec
from logstate.serdes.described_keys import lookup_key
from logstate.testing import FakeCluster
from logstate.topics.displayed_records import RecordReader, log_of_entry
from logstate.topics.row_places import key_part
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried
from tests.unit.topology.processor.collection_topology import (
    HELD,
    ORDERS,
    PRICES,
    PUTS,
    STORES,
    TAGS,
    VISITS,
    topology,
)

# --- queries and HTTP -----------------------------------------------------------------------------


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


def found(app: Application) -> dict[str, Any]:
    try:
        return {name: list(app.store(name).all()) for name in HELD}
    except StoreAccessError:  # not yet
        return {}


def test_queries_http_and_a_restore_on_an_empty_disk(tmp_path: Path) -> None:
    cluster = unhurried({"in": 1, "out": 1})
    encode = serdes.int64.serializer("in", False)
    for key, value in PUTS:
        cluster.produce("in", key.encode(), encode(value), timestamp=9)
    with running(cluster, tmp_path / "first") as app:
        until(lambda: found(app) == HELD)
        check_queries(app.store)
        check_queries(app.remote_store)
        asyncio.run(check_awaited(app))
        with httpx.Client(
            base_url=app.all_instances()[0].host, trust_env=False, timeout=PATIENCE_S
        ) as http:
            check_http(http)
    with running(cluster, tmp_path / "second") as app:
        until(lambda: found(app) == HELD)


def check_queries(store: Callable[..., Any]) -> None:
    orders, prices, tags = store(ORDERS), store(PRICES), store(TAGS)
    assert list(orders.items("ada")) == [(1, -1), (2, 3), (3, 4)]
    assert list(orders.values("ada", 3)) == [4]
    assert [orders.get("ada", index) for index in (0, -1, 3)] == [-1, 4, None]
    assert (orders.size("ada"), orders.size("cy")) == (3, 0)
    assert (prices.get("ada", 3), prices.get("ada", 2)) == (1.5, None)
    assert list(prices.items("ada", 0)) == [(3, 1.5), (4, 2.0)]
    assert list(prices.range("b", "c")) == [(("bob", 5), 2.5)]
    assert [tags.contains("ada", one) for one in ("t3", "t9")] == [True, False]
    assert list(tags.values("ada", "t0", "t3")) == ["t3"]
    assert store(VISITS).get("ada") == 4
    with pytest.raises(StoreArgumentError, match=r"contains\(value=...\) takes .*found 5"):
        tags.contains("ada", 5)


async def check_awaited(app: Application) -> None:
    orders, prices, tags = map(app.async_remote_store, ("orders", "prices", "tags"))
    assert list(await orders.values("ada", 2)) == [3, 4]
    assert list(await prices.items("ada", 0, 3)) == [(3, 1.5)]
    assert (await orders.size("ada"), await tags.contains("ada", "t3")) == (3, True)
    assert [row async for row in tags.range("b", "c")] == [("bob", "t5")]


def rows(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["rows"]


def check_http(http: httpx.Client) -> None:
    assert rows(http.get("/stores/orders/ada"))[0] == {"position": 1, "value": -1}
    assert http.get("/stores/orders/ada?index=-1").json()["row"] == 4
    assert http.get("/stores/orders/ada?index=7").status_code == 404
    assert rows(http.get("/stores/orders/ada?lower=3")) == [{"position": 3, "value": 4}]
    assert http.get("/stores/prices/ada?map_key=3").json()["row"] == 1.5
    assert rows(http.get("/stores/prices/ada?upper=-1")) == [{"map_key": -1, "value": -0.5}]
    assert rows(http.get("/stores/tags/ada")) == ["t-1", "t3", "t4"]
    assert http.get("/stores/tags/ada?value=t3").json()["row"] is True
    lines = [json.loads(line) for line in http.get("/stores/prices?lower=b").text.splitlines()]
    assert [one for one in lines if "key" in one] == [{"key": "bob", "map_key": 5, "value": 2.5}]
    for path, text in {
        "/stores/prices/ada?map_key=x": "is not an element of store 'prices'",
        "/stores/prices/ada?index=1": "its elements are map_key, lower, upper",
        "/stores/prices/ada?start=1": "it has no times",
        "/stores/orders/ada?index=1&lower=1": "index= selects one element, lower= and upper=",
        "/stores/visits/ada?index=1": "it has no elements",
    }.items():
        refused = http.get(path)
        assert (refused.status_code, text in refused.text) == (400, True), refused.text
    with http.stream("GET", "/stores/tags/changes?from=beginning") as response:
        change = next(line for line in response.iter_lines() if line.startswith("data: "))
    assert {"element", "key", "value"} <= json.loads(change.removeprefix("data: ")).keys()
    paths = http.get("/openapi.json").json()["paths"]
    names = [one["name"] for one in paths["/stores/prices/{key}"]["get"]["parameters"]]
    assert {"map_key", "lower", "upper"} <= set(names)


@pytest.mark.parametrize(
    ("spec", "read", "arguments", "row"),
    [
        (ORDERS, "items", ("ada", 1, None), (1, 7)),
        (ORDERS, "get", ("ada", -1), None),
        (ORDERS, "all", (), (("ada", 3), 7)),
        (PRICES, "get", ("ada", -3), None),
        (PRICES, "items", ("ada", None, 5), (-1, 2.5)),
        (PRICES, "range", ("a", None), (("ada", -1), 2.5)),
        (TAGS, "contains", ("ada", "x"), None),
        (TAGS, "values", ("ada", "x", "y"), "x"),
        (TAGS, "all", (), ("ada", "x")),
        (TAGS, "size", ("ada",), None),
        (VISITS, "all", (), ("ada", 3)),
    ],
)
def test_reads_of_other_instances_have_the_same_arguments_and_rows(
    spec: StoreSpec, read: str, arguments: tuple[Any, ...], row: Any
) -> None:
    codec = StoreCodec(spec, "app")
    assert codec.arguments_in(read, codec.arguments_out(read, arguments)) == arguments
    if row is not None:
        assert codec.row_in(read, codec.row_out(read, row)) == row


# --- the changelog --------------------------------------------------------------------------------


class Logged:
    """A record of a changelog, as a consumer returns it."""

    def __init__(self, offset: int, key: bytes, value: bytes | None) -> None:
        self._offset, self._key, self._value = offset, key, value

    def topic(self) -> str:
        return "app-store-changelog"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 9

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> None:
        return None


def log_of(spec: StoreSpec) -> list[Any]:
    """The changelog of the store after the puts, and a deletion."""
    with TopologyTestDriver(topology()) as driver:
        for key, value in PUTS[:3]:
            driver.pipe("in", key, value)
        logged = driver.changelog(f"app-{spec.name}-changelog")
    records = [Logged(n, one.key or b"", one.value) for n, one in enumerate(logged)]
    return [*records, Logged(len(records), records[0].key(), None)]


COLUMNS: dict[str, list[dict[str, Any]]] = {
    "orders": [
        {"key": "ada", "position": 0, "value": 3},
        {"key": "ada", "position": 1, "value": -1},
        {"key": "bob", "position": 0, "value": 5},
        {"key": "ada", "position": 0, "value": None},
    ],
    "prices": [
        {"key": "ada", "map_key": 3, "value": 1.5},
        {"key": "ada", "map_key": -1, "value": -0.5},
        {"key": "bob", "map_key": 5, "value": 2.5},
        {"key": "ada", "map_key": 3, "value": None},
    ],
    "tags": [
        {"key": "ada", "value": "t3"},
        {"key": "ada", "value": "t-1"},
        {"key": "bob", "value": "t5"},
        {"key": "ada", "value": "t3"},
    ],
}


@pytest.mark.parametrize("spec", STORES[:3], ids=lambda spec: spec.name)
def test_readers_of_the_changelog_have_a_column_of_the_element(spec: StoreSpec) -> None:
    table = StoreTable({**fingerprint(spec), "name": spec.name})
    columns = table.batch_columns(with_tombstones=True, with_meta=False)
    block = block_of(TopicPartition("app-store-changelog", 0), log_of(spec))
    batch = record_batch(columns, block).to_pylist()
    expected = COLUMNS[spec.name]
    deleted = [False, False, False, True]
    assert batch == [
        {**row, "_is_tombstone": is_deleted}
        for row, is_deleted in zip(expected, deleted, strict=True)
    ]
    changes = record_batch(table.change_columns(with_meta=False), block).to_pylist()
    assert changes[3]["change_type"] == "delete"
    assert changes[3]["_key"] == changes[0]["_key"] != changes[1]["_key"]


@pytest.mark.parametrize("spec", STORES[:3], ids=lambda spec: spec.name)
def test_no_sql_expression_is_made_for_elements(spec: StoreSpec) -> None:
    with pytest.raises(ConfigError, match="no SQL expression"):
        row_expressions({**fingerprint(spec), "name": spec.name})


@pytest.mark.parametrize("spec", STORES[:3], ids=lambda spec: spec.name)
def test_commands_find_a_key_and_show_its_elements(spec: StoreSpec) -> None:
    log = log_of_entry(spec.name, fingerprint(spec), "app-store-changelog", 1)
    newest = newest_of_key(log_of(spec), log, lookup_key("ada", log.key, {}).is_it)
    reader = RecordReader(log, log.key, log.value)
    shown = [reader.shown(record).as_plain_data() for record in newest.values()]
    assert [one["key"] for one in shown] == ["ada", "ada"]
    name = kind_of(spec).element_name
    assert [one["value"] for one in shown] == [None, COLUMNS[spec.name][1]["value"]]
    assert shown[0][name or "element"] == COLUMNS[spec.name][0][name or "value"]


@pytest.mark.parametrize("spec", STORES[:3], ids=lambda spec: spec.name)
def test_the_rows_of_a_key_are_in_its_partition(spec: StoreSpec) -> None:
    part = key_part(kind_of(spec), spec.key_format)
    assert {part(record.key()) for record in log_of(spec)} == {b"ada", b"bob"}


def test_a_change_of_the_map_key_is_compared() -> None:
    stored, declared = fingerprint(PRICES), fingerprint(map_store("prices", str, str, float))
    assert [one.part for one in store_changes("prices", stored, declared)] == ["element"]
    assert store_changes("prices", stored, declared)[0].verdict is Verdict.REFUSED
    bounded = fingerprint(map_store("prices", str, int, float, max_size=5))
    (change,) = store_changes("prices", stored, bounded)
    assert (change.part, change.verdict) == ("capacity", Verdict.COMPATIBLE)
