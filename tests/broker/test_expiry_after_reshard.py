"""Rows with a TTL that a reshard moves to other partitions, on the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.partition_counts import murmur2_partition
from logstate.topology import Materialized, StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.committed import committed_records
from tests.broker.test_reshard import USERS, Shop
from tests.patience import until


class ExpiringShop(Shop):
    """Orders per user, which are forgotten a minute after the last one."""

    ttl_ms = 60_000
    ticks: Sequence[str] = [f"tick-{number}" for number in range(50)]
    #: orders of these keys so far
    ticks_total = 0

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream(self.inputs, key=str, value=str)
        kept = Materialized("per-user", ttl=timedelta(milliseconds=self.ttl_ms))
        orders.group_by_key().count(store=kept)
        return builder.build()

    def send(self, keys: Iterable[str], *, at_ms: int) -> None:
        """One order of each key."""
        producer = self.cluster.plain_producer()
        producer.produce([ProducedRecord(self.inputs, None, k.encode(), b"", at_ms) for k in keys])
        producer.flush()
        producer.close()

    def tick(self, at_ms: int, *, takes: Callable[[str], bool] = lambda _: True) -> None:
        """Let time come to each partition, or to those of some keys."""
        keys = list(filter(takes, self.ticks))
        self.send(keys, at_ms=at_ms)
        self.ticks_total += len(keys)

    def run_until(self, expected: Mapping[str, int], changelog: str) -> None:
        """Until all is read and exactly these users have orders, in the store and its changelog."""
        with self.application() as app:
            app.wait_until_running()
            wanted = {**expected, "ticks": self.ticks_total}
            until(lambda: self.counts(app) == wanted, lambda: f"{self.counts(app)}, not {wanted}")
            logged = f"{self.name}-{changelog}"
            until(lambda: self.logged(logged) == set(expected), lambda: str(self.logged(logged)))

    def counts(self, app: Application) -> dict[str, int]:
        try:
            rows = {key: row.value for key, row in app.store("per-user").all()}
        except StoreUnavailableError:
            return {}
        ticks = sum(rows.pop(tick, 0) for tick in self.ticks)
        return {**rows, "ticks": ticks}

    def logged(self, changelog: str) -> set[str]:
        """Users whose last record in a changelog is no tombstone."""
        count = self.admin.describe_topics([changelog])[changelog].partitions
        logs = [TopicPartition(changelog, number) for number in range(count)]
        records = committed_records(self.bootstrap, *logs)
        last = {(one.key() or b"").decode(): one.value() is not None for one in records}
        return {user for user in USERS if last.get(user)}


def test_rows_with_a_ttl_expire_at_the_same_times_after_a_move(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    shop = ExpiringShop(bootstrap, unique("expiring"), tmp_path)

    def is_first(key: str) -> bool:
        return murmur2_partition(key.encode(), 2) == 0

    first, second = [u for u in USERS if is_first(u)], [u for u in USERS if not is_first(u)]
    shop.send(USERS, at_ms=1_000)
    shop.send([*first[:4], *second[:4]], at_ms=30_000)
    shop.send(first[:2], at_ms=61_000)
    shop.tick(61_000, takes=is_first)
    twice = dict.fromkeys([*first[2:4], *second[:4]], 2)
    # Time has not come to the other partition, whose rows have not expired.
    behind = dict.fromkeys(second[4:], 1)
    shop.run_until({**dict.fromkeys(first[:2], 3), **twice, **behind}, "per-user-changelog")

    shop.inputs = f"{shop.name}.wide"
    shop.admin.create_topics([NewTopic(shop.inputs, 3, 1, {})])
    shop.move()

    changelog = "g1.per-user-changelog"
    shop.run_until({**dict.fromkeys(first[:2], 3), **twice}, changelog)
    shop.send(second[-1:], at_ms=1_000)  # late: it was forgotten
    shop.tick(89_999)
    shop.run_until({**dict.fromkeys(first[:2], 3), **twice}, changelog)
    shop.tick(90_000)
    shop.run_until(dict.fromkeys(first[:2], 3), changelog)
    shop.tick(121_000)
    shop.run_until({}, changelog)
