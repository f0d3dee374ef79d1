"""Windows that close on idle behind batches that do, under the faults of any schedule.

A batch is sent long after its orders, because its time is long, but has the time of one of them.
Windows that had closed on idle inputs before would drop it as late. What is certain: each order and
each batch is in one final result, or late; and none is late where the grace is longer than the
orders are out of order and all were written before the start. In the other schedules windows close
in the shortest pauses.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from logstate.topology import KStream, Materialized, StreamsBuilder, Topology, TumblingWindows
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.orders_schedule import PatientSchedule

#: topics of final results, of the sub-topology of the batches and of one below it; of late records
_FINALS, _LATE = ("windowed", "regions"), "enriched"


@cache
def topology(*, in_memory: bool, is_patient: bool) -> Topology:
    """Orders and batches of orders, per key, and behind a repartition topic per region."""
    grace_ms, idle_ms, within_ms = (100, 20, 300) if is_patient else (3, 4, 12)
    windows = TumblingWindows(
        size=timedelta(milliseconds=10),
        grace=timedelta(milliseconds=grace_ms),
        close_on_idle=timedelta(milliseconds=idle_ms),
    )
    builder = StreamsBuilder(in_memory_stores=in_memory, window_emit_interval=timedelta(0))
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    within = timedelta(milliseconds=within_ms)
    batches = orders.batch(
        100, within=within, close_on_idle=timedelta(milliseconds=idle_ms), store="batches"
    )
    both = orders.merge(batches.map_values(" ".join, value=str))
    _sum(builder, both, windows, "windowed")
    regions = both.select_key(flow.region_of, key=str)
    _sum(builder, regions.repartition(name="by-region"), windows, "regions")
    return builder.build()


def _sum(
    builder: StreamsBuilder, orders: KStream[str, str], windows: TumblingWindows, name: str
) -> None:
    groups = orders.group_by_key().windowed_by(windows)
    sums = groups.aggregate(
        str,
        lambda _, value, sent: f"{sent} {value}".strip(),
        store=Materialized(name, value=str, retention=timedelta(seconds=2)),
        emit="close",
        name=f"{name}-sums",
        late=f"late-{name}",
    )
    sums.to_stream(lambda w, _: f"{w.key}@{w.start_ms}", key=str).to(name)
    late = builder.late(f"late-{name}", key=str, value=str)
    late.map(lambda _, one: (name, one.value), key=str, value=str).to(_LATE)


class IdleChains(PatientSchedule):
    """A schedule of this flow."""

    variant = "idle_chains"
    make_idle_topology = staticmethod(topology)

    def _found(self, name: str) -> list[str]:
        """The orders of final results of a topic, and late ones."""
        texts = [value for _, value in self.committed_records(name)]
        texts += [value for key, value in self.committed_records(_LATE) if key == name]
        return sorted(order for text in texts for order in text.split())

    def _is_done(self) -> bool:
        """Every order is there twice: as an order, and as one of a batch."""
        return super()._is_done() and all(
            len(self._found(name)) >= 2 * len(self.inputs) for name in _FINALS
        )

    def _judge(self) -> None:
        late = list(self.committed_records(_LATE))
        self.counters["late_orders"] += len(late)
        if late and self.is_patient and not self.swarm.arrives_late:
            raise Wrong(f"records are late, although no input was idle before the last one: {late}")
        wanted = sorted(2 * [(one.value or b"").decode() for one in self.inputs])
        for name in _FINALS:
            same(f"orders of {name}", self._found(name), wanted)
            windows = [key for key, _ in self.committed_records(name)]
            same(f"windows of {name}", sorted(windows), sorted(set(windows)))
            self.counters["compared_results"] += len(windows)
