"""Queries by secondary indexes: here, over all instances, over HTTP, and after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from logstate import Application, Materialized, StreamsBuilder, Topology, index
from logstate.contracts.errors import StoreAccessError, StoreArgumentError, StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.testing import FakeCluster
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried


class Order(msgspec.Struct, frozen=True):
    city: str
    cents: int
    day: date


INDEXES: dict[str, Any] = {
    "city": lambda order: order.city,
    "cents": lambda order: order.cents,
    "day": lambda order: order.day,
    "place": index(lambda order: (order.city, order.cents), tuple[str, int]),
}
ORDERS = {
    f"o-{number}": Order(
        ("Oslo", "Bergen", "Hamar")[number % 3], 10 * number, date(2026, 1, 1 + number % 2)
    )
    for number in range(12)
}


def topology(indexes: dict[str, Any] | None = None) -> Topology:
    builder = StreamsBuilder()
    store = Materialized("orders", indexes=indexes)
    builder.table("in", value=Order, store=store)
    return builder.build()


def filled(partitions: int) -> FakeCluster:
    cluster = unhurried({"in": partitions})
    for key, order in ORDERS.items():
        partition = partition_of(key.encode(), partitions)
        cluster.produce("in", key.encode(), msgspec.json.encode(order), partition=partition)
    return cluster


@contextmanager
def running(
    cluster: FakeCluster, state_dir: Path, indexes: dict[str, Any] | None = INDEXES
) -> Iterator[Application]:
    with Application(
        topology(indexes),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        serve="127.0.0.1:0",
    ) as app:
        yield app


def has_all(app: Application) -> bool:
    try:
        return len(dict(app.store("orders").all())) == len(ORDERS)
    except StoreAccessError:  # not yet
        return False


def keys(rows: Any) -> set[str]:
    return {key for key, _ in rows}


def keys_where(condition: Any) -> set[str]:
    return {key for key, order in ORDERS.items() if condition(order)}


def check_reads(store: Any) -> None:
    assert keys(store.by("city", "Oslo")) == keys_where(lambda o: o.city == "Oslo")
    assert keys(store.by("day", date(2026, 1, 2))) == keys_where(lambda o: o.day.day == 2)
    assert keys(store.by("place", ("Oslo",))) == keys_where(lambda o: o.city == "Oslo")
    assert keys(store.by("place", ("Hamar", 50))) == {"o-5"}
    assert keys(store.by_range("cents", 30, 50)) == {"o-3", "o-4", "o-5"}
    assert keys(store.by_range("place", None, ("Hamar",))) == keys_where(lambda o: o.city < "I")
    (key, row), *_ = store.by_range("cents", 30, 30)
    assert (key, row.value) == ("o-3", ORDERS["o-3"])
    with pytest.raises(StoreArgumentError, match="has no index 'town'"):
        store.by("town", "Oslo")
    with pytest.raises(StoreArgumentError, match=r"by\(value=...\) takes values of index 'cents'"):
        store.by("cents", "30")


def answer_of(app: Application, query: str) -> httpx.Response:
    host = app.all_instances()[0].host
    with httpx.Client(base_url=host, trust_env=False, timeout=PATIENCE_S) as http:
        return http.get(f"/stores/orders?{query}")


def lines_of(app: Application, query: str) -> list[Any]:
    answer = answer_of(app, query)
    assert answer.status_code == 200, answer.text
    return [msgspec.json.decode(line) for line in answer.text.splitlines()]


def keys_of_lines(lines: list[Any]) -> set[str]:
    return {line["key"] for line in lines if "key" in line}


def check_http(app: Application) -> None:
    oslo = keys_where(lambda o: o.city == "Oslo")
    assert keys_of_lines(lines_of(app, "by=city&value=Oslo")) == oslo
    assert keys_of_lines(lines_of(app, "by=cents&lower=30&upper=50")) == {"o-3", "o-4", "o-5"}
    assert keys_of_lines(lines_of(app, "by=day&value=2026-01-02")) == keys_where(
        lambda o: o.day.day == 2
    )
    assert keys_of_lines(lines_of(app, 'by=place&value=["Hamar",50]')) == {"o-5"}
    first = lines_of(app, "by=city&value=Oslo&limit=3")
    rest = lines_of(app, f"continue={first[-1]['continue']}")
    assert len(keys_of_lines(first)) == 3
    assert keys_of_lines(first) | keys_of_lines(rest) == oslo
    for query, error in (
        ("by=town&value=x", "has no index 'town'"),
        ("by=cents&value=x", "is not"),
        ("value=x", "give by= with its name"),
        ("by=city&value=x&lower=a", "value= selects one value"),
    ):
        answer = answer_of(app, query)
        assert answer.status_code == 400, answer.text
        assert error in answer.json()["error"]


def test_rows_are_found_by_an_index_here_elsewhere_and_over_http(tmp_path: Path) -> None:
    cluster = filled(2)
    with running(cluster, tmp_path / "one") as app, running(cluster, tmp_path / "two") as other:
        until(lambda: sum(len(keys(_or_none(one))) for one in (app, other)) == len(ORDERS))
        for one in (app, other):
            check_reads(one.remote_store("orders"))
            check_http(one)
        found = asyncio.run(_keys_of_async(app))
        assert found == keys_where(lambda o: o.city == "Oslo")


def _or_none(app: Application) -> Any:
    try:
        return list(app.store("orders").all())
    except StoreAccessError:
        return []


async def _keys_of_async(app: Application) -> set[str]:
    store = app.async_remote_store("orders")
    return {key async for key, _ in store.by("city", "Oslo")}


@pytest.mark.parametrize("loses_disk", [False, True])
def test_an_index_is_there_after_a_restart(tmp_path: Path, loses_disk: bool) -> None:
    cluster = filled(1)
    with running(cluster, tmp_path / "first") as app:
        until(lambda: has_all(app))
        check_reads(app.store("orders"))
    with running(cluster, tmp_path / ("second" if loses_disk else "first")) as app:
        until(lambda: has_all(app))
        check_reads(app.store("orders"))


def finds_by_city(app: Application) -> bool:
    try:
        return bool(keys(app.store("orders").by("city", "Oslo")))
    except StoreUnavailableError:
        return False


def test_an_index_that_is_added_to_a_store_with_rows_is_built_without_a_record(
    tmp_path: Path,
) -> None:
    cluster = filled(1)
    with running(cluster, tmp_path, None) as app:
        until(lambda: has_all(app))
    replayed = len(cluster.records("app-orders-changelog"))
    with running(cluster, tmp_path, {"city": INDEXES["city"]}) as app:
        until(lambda: finds_by_city(app))
        assert keys(app.store("orders").by("city", "Oslo")) == keys_where(
            lambda o: o.city == "Oslo"
        )
    with running(cluster, tmp_path) as app:  # three others
        for name in INDEXES:
            until(lambda name=name: is_built(app, name))
        check_reads(app.store("orders"))
    assert len(cluster.records("app-orders-changelog")) == replayed


def is_built(app: Application, name: str) -> bool:
    try:
        return len(keys(app.store("orders").by_range(name))) == len(ORDERS)
    except StoreUnavailableError:
        return False
