"""Two instances of one application over a cluster in memory, with something of each to see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from logstate import ErrorHandlers, dead_letter
from logstate.app.application import Application
from logstate.contracts.partitioner import partition_of
from logstate.contracts.serving import Serving
from logstate.contracts.topic_names import instances_topic
from logstate.directory.entries import InstanceEntry, TaskEntry, encode_entry, signed
from logstate.testing import FakeCluster
from logstate.topology import SessionWindows, StreamsBuilder, Topology, TumblingWindows
from tests.unhurried import unhurried
from tests.unit.logstate.instances import until

TOKEN = "a long random text"
PARTITIONS = 3
PRODUCTS = ["tea", "milk", "bread", "soap", "salt"]
#: more than a browser's numbers hold
MANY = 2**60 + 1
DAY_MS = 86_400_000
#: a lookup in vain takes as long; below the patience of the page
SOON = timedelta(seconds=10)


def broken(product: str) -> str:
    if product == "broken":
        raise ValueError("it fell off the shelf")
    return product


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str).map_values(broken, name="unpacked")
    visits = SessionWindows(gap=timedelta(minutes=5), grace=timedelta(0))
    orders.group_by_key().windowed_by(visits).count(store="visits")
    by_product = orders.group_by(lambda _, product: product, key=str, value=str, name="by-product")
    by_product.count(store="sales").to_stream().to("sold")
    hours = TumblingWindows(size=timedelta(hours=1), grace=timedelta(0))
    by_product.windowed_by(hours).count(store="sales-per-hour")
    builder.table("amounts", key=int, value=int, store="amounts")
    builder.global_table("names", key=str, value=str, store="names")
    return builder.build()


class Shop(NamedTuple):
    """What runs, and where one of the two instances has its page."""

    cluster: FakeCluster
    apps: list[Application]

    @property
    def address(self) -> str:
        """Of the page."""
        first = self.apps[0]._presence
        assert first is not None
        return f"{first.address}/"

    def order(self, customer: str | None, product: str, timestamp: int = DAY_MS) -> None:
        """Somebody buys something."""
        key = None if customer is None else customer.encode()
        at = 0 if key is None else partition_of(key, PARTITIONS)
        self.cluster.produce("orders", key, product.encode(), partition=at, timestamp=timestamp)

    def plant(self, entry: InstanceEntry | None, instance: str = "planted") -> None:
        """An entry of an instance that is not there; None takes it away."""
        value = None if entry is None else signed(encode_entry(entry), TOKEN, "shop")
        self.cluster.produce(instances_topic("shop"), instance.encode(), value)
        until(
            self.apps[0],
            lambda: (entry is not None) == any(i.rack == STRANGER for i in self.instances()),
        )

    def instances(self) -> list[InstanceEntry]:
        """That the first one knows of."""
        presence = self.apps[0]._presence
        assert presence is not None
        return presence.link.known.live(presence._clock.monotonic_ms())


STRANGER = "<img src=x onerror=document.title=1>"


def planted(remaining: int) -> InstanceEntry:
    """It restores a task beyond those of the others; two more nobody has."""
    report = TaskEntry(1, "restoring", lag=1_234_567, restore_records=remaining)
    return InstanceEntry(
        "planted",
        "http://10.0.0.9:8080",
        1,
        60_000,
        rack=STRANGER,
        version="<script>document.title=1</script>",
        tasks={f"0_{PARTITIONS}": report},
        task_counts={0: PARTITIONS + 3},
        standbys={"0_0": 17},
    )


@contextmanager
def running_shop(folder: Path) -> Iterator[Shop]:
    """Both instances run, all of it can be read, and each copies what the other has."""
    cluster = unhurried(
        {"orders": PARTITIONS, "amounts": PARTITIONS, "names": 1, "sold": 1, "dead": 1}
    )
    made = []
    with ExitStack() as stack:
        for rack in ("eu-1a", "eu-1b"):
            app = Application(
                topology(),
                application_id="shop",
                bootstrap="fake:9092",
                state_dir=folder / rack,
                commit_interval=timedelta(milliseconds=20),
                cluster=cluster,
                serve=Serving("127.0.0.1:0", token=TOKEN, rack=rack, timeout=SOON),
                standby_replicas=1,
                error_handlers=ErrorHandlers(processing=dead_letter, dead_letter_topic="dead"),
            )
            made.append(stack.enter_context(app))
        shop = Shop(cluster, made)
        fill(shop)
        for app in made:
            until(app, lambda app=app: is_settled(app))
        yield shop


def fill(shop: Shop) -> None:
    """What was bought before anybody looks."""
    for number in range(60):
        shop.order(f"customer-{number % 7}", PRODUCTS[number % 5], DAY_MS + number)
    for odd in ("changes", "..", "a/b c?", "é&<b>"):
        shop.order("ada", odd)
    shop.order("ada", "broken")
    shop.order(None, "tea")
    amount = (7).to_bytes(8, "big")
    at = partition_of(amount, PARTITIONS)
    shop.cluster.produce("amounts", amount, MANY.to_bytes(8, "big"), partition=at, timestamp=1)
    shop.cluster.produce("names", b"ada", b"Ada", timestamp=1)


def is_settled(app: Application) -> bool:
    """Every task can be read somewhere, has nothing left to do, and has a copy."""
    found = app.all_instances()
    tasks = {task: report for one in found for task, report in one.tasks.items()}
    copied = {task for one in found for task, lag in one.standbys.items() if lag == 0}
    numbers = [sub.id for sub in app.topology.sub_topologies]
    wanted = sum(app._presence.lookup.task_counts(numbers).values())  # type: ignore[union-attr]
    return (
        len(found) == 2
        and len(tasks) == wanted > 0
        and all(report.is_readable and report.lag == 0 for report in tasks.values())
        and bool(copied)
        and sum(one.figures.processed for one in found) > 60
    )
