"""TimeWindowedKStream: a grouped stream cut into tumbling, hopping, sliding or custom windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logstate.contracts.records import Windowed
from logstate.topology.declaring.windows import SlidingWindows, Windows
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow
from logstate.topology.dsl.stream_aggregations import StreamAggregations


@dataclass(frozen=True, eq=False)
class TimeWindowedKStream(StreamAggregations[K, Windowed[K], V]):
    """A grouped stream cut into tumbling, hopping, sliding, unlimited or custom windows.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
    >>> builder = StreamsBuilder()
    >>> ten = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
    >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(ten)
    >>> counts = clicks.count(store="clicks")
    >>> counts.to_stream(lambda w, n: f"{w.key}@{w.start_ms}").to("n", key=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "a", 3), ("ada", "b", 15), ("ada", "c", 9)])
    ...     driver.read("n", value=int), driver.dropped_total
    ([('ada@0', 1), ('ada@10', 1)], 1)

    Made by ``KGroupedStream.windowed_by``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``.

    Late records: dropped once PER window that is closed, and counted as dropped: a window is closed
    once the operator's own stream time, this record included, reaches its end + grace (sliding:
    exceeds it).

    Order: windows ascending by start; sliding ones as in
    ``operators/aggregates/sliding_aggregate.py``; with ``emit="close"`` by start, then by the key's
    bytes.

    Store: its retention is size + grace (sliding: twice the difference + grace) if not given.

    ``emit="update"`` sends every change, ``"commit"`` the last one per window and commit.
    ``"close"`` sends one final result per window, once stream time has reached its end + grace; it
    looks for such windows only when a record arrives, and at most once per ``window_emit_interval``
    of the builder. With the store's default retention a jump in event time can take closed windows
    out of the store before they are emitted: they are lost, as in Kafka Streams, but counted
    (``expired_results_total``) and told. Give the store more (``Materialized(retention=)``) where
    event time jumps (docs/late-records.md).

    Source: Kafka Streams' ``TimeWindowedKStream``; final results: KIP-825; no implicit grace:
    KIP-633.
    """

    grouped: GroupedFlow[K, V]
    windows: Windows | SlidingWindows

    def _grouping(self) -> tuple[GroupedFlow[Any, V], Windows | SlidingWindows]:
        return self.grouped, self.windows
