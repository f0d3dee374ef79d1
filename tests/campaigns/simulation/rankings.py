"""The greatest of the groups of a table, under the faults of any schedule.

Rows change, move to another group and are deleted, so values leave the lists and others enter them.
In which order the changes of two partitions reach a group depends on timing. What is certain: the
old list of a change is the new list of the change before it, no change is without a difference, and
what is left at the end are the greatest of the rows that are left.
"""

from __future__ import annotations

import zlib
from functools import cache

from logstate.contracts.records import Change
from logstate.topology import StreamsBuilder, Topology
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.orders_schedule import OrdersSchedule

_N = 2
_NOTHING = "nothing"
#: of every change, and of one change per group and commit
_TOPICS = ("enriched", "windowed")


@cache
def topology(*, in_memory: bool) -> Topology:
    """The two greatest of each region, of the last orders by key."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    last = orders.map_values(_kept, value=str).to_table(store="last", key=str, value=str)
    regions = last.group_by(
        lambda key, order: (flow.region_of(key, order), order), name="by-region", key=str, value=str
    )
    lists = (
        regions.top_n(_N, _score, store="best"),
        regions.top_n(_N, _score, store="best-of-commits", emit="commit"),
    )
    for table, topic in zip(lists, _TOPICS, strict=True):
        table.to_change_stream().map_values(_text_of, value=str).to(topic)
    return builder.build()


def _kept(order: str) -> str | None:
    """None deletes the row of the key."""
    return order if zlib.crc32(order.encode()) % 4 else None


def _score(order: str) -> int:
    """Few scores, so that ties are frequent."""
    return zlib.crc32(order.encode()) % 3


def _text_of(change: Change[list[str]]) -> str:
    return f"{_shown(change.old)} {_shown(change.new)}"


def _shown(best: list[str] | None) -> str:
    return "|".join(best) if best else _NOTHING


class Rankings(OrdersSchedule):
    """A schedule of this flow."""

    variant = "rankings"
    make_topology = staticmethod(topology)
    orders = 36
    first_ms = 1

    def _judge(self) -> None:
        rows: dict[str, str | None] = {}
        for one in self.inputs:
            rows[(one.key or b"").decode()] = _kept((one.value or b"").decode())
        groups: dict[str, list[str]] = {}
        for key, order in rows.items():
            if order is not None:
                groups.setdefault(flow.region_of(key, order), []).append(order)
        wanted = {
            region: _shown(sorted(orders, key=lambda one: (-_score(one), one.encode()))[:_N])
            for region, orders in groups.items()
        }
        for topic in _TOPICS:
            same(f"the lists of {topic}", self.rows_of_changes(topic, _NOTHING), wanted)
            for region, change in self.committed_records(topic):
                old, new = change.split()
                if old == new:
                    raise Wrong(f"{region} changes from {old} to the same")
