"""Windows that close while their inputs are idle, under the faults of any schedule.

When a window closes depends on timing, and with it which orders are late. What is certain: each
window is final once and with all orders that were not late for it, and none stays open. In every
second schedule the grace is longer than the orders are out of order: no order is late there if all
were written before the start, because windows close on idle inputs only. In the others windows
close in the shortest pauses.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache

from logstate.contracts.late_record import LateRecord
from logstate.testing.simulation.upstream import Input
from logstate.topology import KStream, Materialized, StreamsBuilder, Topology, TumblingWindows
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.orders_schedule import PatientSchedule

_SIZE_MS = 10
#: topics of final results, one for each sub-topology, and of late orders
_FINALS, _LATE = ("windowed", "regions"), "enriched"


@cache
def topology(*, in_memory: bool, is_patient: bool) -> Topology:
    """Orders per key, and behind a repartition topic per region."""
    grace_ms, idle_ms = (100, 60) if is_patient else (3, 4)
    windows = TumblingWindows(
        size=timedelta(milliseconds=_SIZE_MS),
        grace=timedelta(milliseconds=grace_ms),
        close_on_idle=timedelta(milliseconds=idle_ms),
    )
    looks = timedelta(milliseconds=0 if is_patient else 2)
    builder = StreamsBuilder(in_memory_stores=in_memory, window_emit_interval=looks)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    _count(builder, orders, windows, "windowed")
    regions = orders.select_key(flow.region_of, key=str)
    _count(builder, regions.repartition(name="by-region"), windows, "regions")
    return builder.build()


def _count(
    builder: StreamsBuilder, orders: KStream[str, str], windows: TumblingWindows, name: str
) -> None:
    groups = orders.group_by_key().windowed_by(windows)
    store = Materialized(name, retention=timedelta(seconds=1))
    counts = groups.count(store=store, emit="close", name=f"{name}-counts", late=f"late-{name}")
    finals = counts.to_stream(lambda w, _: f"{w.key}@{w.start_ms}", key=str)
    finals.map_values(str, value=str).to(name)
    late = builder.late(f"late-{name}", key=str, value=str)
    late.map(lambda _, one: (name, _window_of(one)), key=str, value=str).to(_LATE)


def _window_of(late: LateRecord[str, str]) -> str:
    assert late.window is not None
    return f"{late.window.key}@{late.window.start_ms}"


def _key_in(topic: str, order: Input) -> str:
    key, value = (order.key or b"").decode(), (order.value or b"").decode()
    return key if topic == _FINALS[0] else flow.region_of(key, value)


class IdleWindows(PatientSchedule):
    """A schedule of this flow."""

    variant = "idle"
    make_idle_topology = staticmethod(topology)

    def _is_done(self) -> bool:
        """Every order is in a final result, or late."""
        if not super()._is_done():
            return False
        left = len(self.inputs) * len(_FINALS) - len(list(self.committed_records(_LATE)))
        return left <= sum(int(n) for topic in _FINALS for _, n in self.committed_records(topic))

    def _judge(self) -> None:
        late = Counter(self.committed_records(_LATE))
        self.counters["late_orders"] += late.total()
        if late and self.is_patient and not self.swarm.arrives_late:
            raise Wrong(f"orders are late, although no input was idle before the last one: {late}")
        for topic in _FINALS:
            wanted = Counter(
                f"{_key_in(topic, one)}@{one.timestamp // _SIZE_MS * _SIZE_MS}"
                for one in self.inputs
            )
            wanted -= Counter({key: n for (name, key), n in late.items() if name == topic})
            found = sorted((key, int(n)) for key, n in self.committed_records(topic))
            same(f"final results of {topic}", found, sorted(wanted.items()))
            self.counters["compared_results"] += len(found)
