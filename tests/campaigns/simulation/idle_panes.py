"""Panes that are sent while the inputs are idle, under the faults of any schedule.

Which panes there are depends on timing. What is certain: the panes of a window are numbered without
gaps, each has the value of the one before it, early ones come before one on time and that before
late ones, and a window without a late pane alone has one on time; the last pane has all orders of
the window that were not dropped as late.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache

from logstate.contracts.pane import Pane
from logstate.contracts.records import Windowed
from logstate.topology import (
    KStream,
    Materialized,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    early,
)
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.orders_schedule import PatientSchedule

_SIZE_MS = 10
#: topics of panes, one for each sub-topology, with their triggers; of late orders
_PANES = {"windowed": early(records=2), "regions": early(every=timedelta(milliseconds=3))}
_LATE = "enriched"
_TIMINGS = ("early", "on_time", "late")


@cache
def topology(*, in_memory: bool, is_patient: bool) -> Topology:
    """Orders per key, and behind a repartition topic per region."""
    grace_ms, idle_ms = (100, 60) if is_patient else (8, 4)
    windows = TumblingWindows(
        size=timedelta(milliseconds=_SIZE_MS),
        grace=timedelta(milliseconds=grace_ms),
        close_on_idle=timedelta(milliseconds=idle_ms),
    )
    builder = StreamsBuilder(in_memory_stores=in_memory)
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
    counts = groups.count(store=store, name=f"{name}-counts", late=f"late-{name}")
    panes = counts.to_pane_stream(_PANES[name], name=f"{name}-panes")
    panes.select_key(_key_of, key=str).map_values(_text_of, value=str).to(name)
    late = builder.late(f"late-{name}", key=str, value=str)
    late.map_values(lambda _: name, value=str).to(_LATE)


def _key_of(window: Windowed[str], _: object) -> str:
    return f"{window.key}@{window.start_ms}"


def _text_of(pane: Pane[int]) -> str:
    return f"{pane.number} {pane.timing} {pane.old or 0} {pane.value}"


class IdlePanes(PatientSchedule):
    """A schedule of this flow."""

    variant = "idle_panes"
    make_idle_topology = staticmethod(topology)

    def _windows(self, topic: str) -> dict[str, list[list[str]]]:
        """The panes of each window, in their order."""
        found: dict[str, list[list[str]]] = {}
        for key, pane in self.committed_records(topic):
            found.setdefault(key, []).append(pane.split())
        return found

    def _is_done(self) -> bool:
        """Every order is in a pane that is on time or late, or was dropped as late."""
        if not super()._is_done():
            return False
        late = Counter(name for _, name in self.committed_records(_LATE))
        return all(
            late[topic] + sum(_closed(panes) for panes in self._windows(topic).values())
            >= len(self.inputs)
            for topic in _PANES
        )

    def _judge(self) -> None:
        late = Counter(name for _, name in self.committed_records(_LATE))
        self.counters["late_orders"] += late.total()
        if late and self.is_patient and not self.swarm.arrives_late:
            raise Wrong(f"orders are late, although no input was idle before the last one: {late}")
        for topic in _PANES:
            windows = self._windows(topic)
            for key, panes in windows.items():
                numbers, timings, old, values = zip(*panes, strict=True)
                same(f"numbers of {key}", numbers, tuple(map(str, range(len(panes)))))
                same(f"old values of {key}", old, ("0", *values[:-1]))
                same(f"timings of {key}", list(timings), sorted(timings, key=_TIMINGS.index))
                on_time = int(timings[0] != "late")
                same(f"panes on time of {key}", timings.count("on_time"), on_time)
                self.counters["compared_panes"] += len(panes)
            counted = sum(_closed(panes) for panes in windows.values())
            same(f"orders of {topic}", counted, len(self.inputs) - late[topic])


def _closed(panes: list[list[str]]) -> int:
    """The value of a window of which no pane on time will come any more."""
    _, timing, _, value = panes[-1]
    return 0 if timing == "early" else int(value)
