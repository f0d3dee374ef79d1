"""Two tables that are joined by a foreign key, under the faults of any schedule.

Who asks which row and who is answered when depends on timing, and so do the results on the way. The
last ones do not: when everything is quiet, each order stands beside the price of its foreign key,
and the subscriptions are those of the last orders, each once and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from logstate.contracts.records import TopicPartition
from logstate.testing.simulation.swarm import Swarm
from logstate.topology import StreamsBuilder, Topology
from tests.campaigns.simulation import dataset, flow
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

_OUTPUT = "enriched"


def item_of(order: str) -> str:
    """The key of the price that an order wants; some have none."""
    return f"k{int(order.rpartition('-')[2]) % 9}"


@cache
def topology(*, in_memory: bool) -> Topology:
    """Orders with the prices of their items."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.table(flow.ORDERS, key=str, value=str, store="orders")
    prices = builder.table(flow.PRICES, key=str, value=str, store="prices")
    joined = orders.left_join(
        prices,
        lambda order, price: f"{order}@{price}",
        foreign_key=item_of,
        name="item",
        store="joined",
        value=str,
    )
    joined.to_stream().to(_OUTPUT, key=str, value=str)
    return builder.build()


class ForeignKeys(Schedule):
    """A schedule of this flow; exactly-once, because then the last result is the last record."""

    @classmethod
    def of(cls, seed: int) -> ForeignKeys:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="foreign_keys", guarantee="exactly_once"))

    def __init__(self, swarm: Swarm) -> None:
        # More prices than elsewhere: both sides have to change.
        inputs = dataset.inputs(swarm.seed % dataset.COUNT, orders=16, prices=14, price_every=2)
        super().__init__(swarm, inputs=inputs)
        self.judge = self._judge

    def _topology(self) -> Topology:
        return topology(in_memory=self.swarm.in_memory)

    def _judge(self) -> None:
        orders, prices = self._last(flow.ORDERS), self._last(flow.PRICES)
        joined = {
            key: f"{order}@{prices.get(item_of(order).encode(), b'None').decode()}".encode()
            for key, order in ((key, value.decode()) for key, value in orders.items())
        }
        subscriptions = {
            len(item).to_bytes(4, "big") + item + key
            for key, item in ((k, item_of(v.decode()).encode()) for k, v in orders.items())
        }
        kinds = {spec.name: spec.kind for spec in self.topology.stores.values()}
        same("results", self._last(_OUTPUT), joined)
        for store, kind in kinds.items():
            rows = self._last(f"{flow.APPLICATION}-{store}-changelog")
            self.counters[f"compared_changelog_rows_of_{kind}"] += len(rows)
            if kind == "foreign_key_subscription":
                same(f"subscriptions in {store!r}", set(rows), subscriptions)
            else:
                wanted = {"orders": orders, "prices": prices, "joined": joined}[store]
                same(f"rows of {store!r}", rows, wanted)
        self.counters["compared_results"] += len(joined)

    def _last(self, topic: str) -> Mapping[bytes, bytes]:
        """The last committed value of each key that was not deleted."""
        rows: dict[bytes, bytes | None] = {}
        for partition in range(self.partitions):
            log = self.cluster.log_or_none(TopicPartition(topic, partition))
            for entry in [] if log is None else log.history:
                record, transaction = entry.record, entry.transaction
                if record is not None and (transaction is None or transaction.is_committed):
                    rows[record.key() or b""] = record.value()
        return {key: value for key, value in rows.items() if value is not None}
