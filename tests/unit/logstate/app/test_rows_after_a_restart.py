"""A row is the same after a restart without its disk, on the fake cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate.app.application import Application
from logstate.serdes import json
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, Topology
from tests.patience import until
from tests.unit.logstate.app.test_fake_application import SHORT


class Price(msgspec.Struct):
    cents: float


def application(topology: Topology, cluster: FakeCluster, directory: Path) -> Application:
    return Application(
        topology,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=directory,
        commit_interval=SHORT,
        cluster=cluster,
    )


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_foreign_key_join_finds_rows_whose_bytes_are_not_those_of_what_they_decode_to(
    tmp_path: Path, is_kept: bool
) -> None:
    cluster = FakeCluster({"prices": 2, "shops": 3, "out": 1})
    cluster.produce("prices", b"tea", b'{"cents":3}', timestamp=1)
    for number in range(3):
        builder = StreamsBuilder()
        prices = builder.table("prices", value=Price, store="prices")
        doubled = prices.map_values(
            lambda price: price, value=Price, store="doubled" if is_kept else None
        )
        shops = builder.table("shops", value=str, store="shops")
        joined = doubled.join(
            shops,
            lambda _, shop: shop,
            foreign_key=lambda _: "s",
            value=str,
            name="fk",
            store="joined",
        )
        joined.to_stream().to("out")
        with application(builder.build(), cluster, tmp_path / str(number)):
            cluster.produce("shops", b"s", b"%d" % number, timestamp=number + 2)
            cluster.wait_for_records("out", number + 1)
    assert [r.value() for r in cluster.records("out")] == [b"0", b"1", b"2"]


def _once_it_holds(value: int, app: Application) -> list[Any]:
    """The rows of 'prices': what is committed can be read a moment later."""
    store = app.store("prices")
    until(lambda: [row.value for _, row in store.all()] == [value])
    return list(store.all())


def test_a_source_topic_as_changelog_gives_the_rows_that_processing_had(tmp_path: Path) -> None:
    cluster = FakeCluster({"prices": 1, "orders": 1, "out": 1})
    for key, value in ((b'"gone"', b"1"), (b'"gone"', b"null"), (b'{ "b":1,"a":2 }', b"2")):
        cluster.produce("prices", key, value, timestamp=1)
    cluster.produce("prices", b'{"a":2,"b":1}', b"3", timestamp=2)
    found: list[Any] = []
    for number in range(2):
        builder = StreamsBuilder()
        prices = builder.table("prices", key=json, value=json, store="prices")
        orders = builder.stream("orders", key=json, value=str)
        orders.left_join(prices, lambda order, price: f"{order}: {price}").to("out", value=str)
        app = application(builder.build("all"), cluster, tmp_path / str(number))
        with app:
            for key in (b'"gone"', b'{"a":2,"b":1}', b"null"):
                cluster.produce("orders", key, b"order", timestamp=5)
            cluster.wait_for_records("out", 3 + 3 * number)
            found.append(_once_it_holds(3, app))
    assert [r.value() for r in cluster.records("out")] == [
        b"order: None",
        b"order: 3",
        b"order: None",
    ] * 2
    assert found[0] == found[1]
    assert [(key, row.value) for key, row in found[0]] == [({"a": 2, "b": 1}, 3)]
