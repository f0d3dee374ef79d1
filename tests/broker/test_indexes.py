"""Secondary indexes on a broker, after a kill, a lost disk, a move and a restart: index = scan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from logstate import Application, Materialized, StreamsBuilder, Topology
from logstate.contracts.errors import StoreAccessError
from logstate.contracts.partitioner import partition_of
from tests.broker.example_instance import application
from tests.broker.example_run import PARTITIONS, ExampleRun, running
from tests.broker.group_settings import expect_heartbeats_within
from tests.patience import PATIENCE_S, until

CITIES = ("Oslo", "Bergen", "Hamar", None)
KEYS, RECORDS = 300, 2_000
#: the group removes a killed member after it, and one that stands still for less stays
KILLED_MS = 15_000


class Order(msgspec.Struct, frozen=True):
    """A row; without a city it is in one of the two indexes."""

    city: str | None
    cents: int


def topology(prefix: str) -> Topology:
    """A table with two indexes, and its changes."""
    indexes = {"city": lambda order: order.city, "cents": lambda order: order.cents}
    builder = StreamsBuilder()
    table = builder.table(
        f"{prefix}orders", key=str, value=Order, store=Materialized("orders", indexes=indexes)
    )
    table.to_stream().to(f"{prefix}changes")
    return builder.build()


class Orders:
    """Random orders, of which each changes often and some are deleted."""

    def __init__(self, run: ExampleRun, app: Application) -> None:
        self.latest: dict[str, Order] = {}
        self._run, self._app, self._rng = run, app, random.Random(7)
        self._sent = 0

    def send(self) -> None:
        records = []
        for _ in range(RECORDS):
            self._sent += 1
            key = f"o-{self._rng.randrange(KEYS)}"
            order = Order(self._rng.choice(CITIES), self._rng.randrange(-50, 50))
            self.latest[key] = order
            data = msgspec.json.encode(order)
            if self._rng.random() < 0.2:
                del self.latest[key]
                data = None
            records.append(("orders", (key.encode(), data, self._sent)))
        self._run.send(records)

    def partitions(self) -> list[int]:
        """Return the number of partitions of each instance that has some, ascending."""
        found = self._app.metadata_for_store("orders")
        return sorted(len(one.state_stores["orders"]) for one in found)

    def scan(self) -> dict[str, Order]:
        """Return the rows of all instances; none while a partition is on its way."""
        try:
            rows = self._app.remote_store("orders", key=str, value=Order).all()
            return {key: row.value for key, row in rows}
        except StoreAccessError:
            return {}

    def check(self) -> None:
        """Wait until all records are processed, and compare all reads with the scan."""
        until(lambda: self.scan() == self.latest, lambda: f"{len(self.scan())} rows")
        store = self._app.remote_store("orders", key=str, value=Order)
        counts = Counter(order.city for order in self.latest.values())
        assert set(counts) == set(CITIES)
        for city in CITIES[:-1]:
            wanted = {key: order for key, order in self.latest.items() if order.city == city}
            assert {key: row.value for key, row in store.by("city", city)} == wanted
            for instance in self._app.metadata_for_store("orders"):
                assert keys_over_http(instance.host, f"by=city&value={city}") == set(wanted)
        for lower, upper in ((None, None), (-10, 20), (3, 3), (30, None)):
            for reverse in (False, True):
                found = [key for key, _ in store.by_range("cents", lower, upper, reverse=reverse)]
                assert found == self._in_order(lower, upper, reverse=reverse)

    def _in_order(self, lower: int | None, upper: int | None, *, reverse: bool) -> list[str]:
        rows = sorted(
            (order.cents, key.encode(), key)
            for key, order in self.latest.items()
            if (lower is None or lower <= order.cents) and (upper is None or order.cents <= upper)
        )
        if reverse:
            rows.reverse()
        keys = [key for _, _, key in rows]
        return sorted(keys, key=lambda key: partition_of(key.encode(), PARTITIONS))


def keys_over_http(host: str, query: str) -> set[str]:
    with httpx.Client(base_url=host, trust_env=False, timeout=PATIENCE_S) as http:
        answer = http.get(f"/stores/orders?{query}")
    assert answer.status_code == 200, answer.text
    lines = map(msgspec.json.decode, answer.text.splitlines())
    return {line["key"] for line in lines if "key" in line}


@pytest.mark.slow
def test_an_index_has_the_rows_of_a_scan_after_a_kill_a_move_a_lost_disk_and_a_restart(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name, topics = unique("indexes"), ("orders", "changes")
    expect_heartbeats_within(bootstrap, name, timeout_ms=KILLED_MS)
    with (
        running(__name__, bootstrap, name, tmp_path, topics, instances=0) as run,
        application(__name__, bootstrap, name, tmp_path / "survivor", serve=True) as survivor,
    ):
        run.arguments = ["--serve"]
        run.start(0)
        orders = Orders(run, survivor)
        until(lambda: orders.partitions() == [1, 2], lambda: f"{orders.partitions()}")
        orders.send()
        orders.check()

        before = len(run.read("changes"))
        orders.send()
        until(lambda: len(run.read("changes")) > before, "nothing new is processed")
        run.kill(0, loses_disk=True)
        until(lambda: orders.partitions() == [PARTITIONS], lambda: f"{orders.partitions()}")
        orders.check()

        run.start(0)
        orders.send()
        until(lambda: orders.partitions() == [1, 2], lambda: f"{orders.partitions()}")
        orders.check()
        run.stop()
