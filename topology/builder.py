"""StreamsBuilder: where a topology starts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from logstate.errors import TopologyError
from logstate.topology.added_stores import AddedStores
from logstate.topology.input_topics import InputTopics
from logstate.topology.logical import LogicalGraph, LogicalNode
from logstate.topology.materialized import StoreDefaults
from logstate.topology.optimization import optimize, rules_of
from logstate.topology.plan import Topology, make_topology
from logstate.topology.windows import to_ms


class StreamsBuilder(InputTopics, AddedStores):
    """Declares a topology, step by step, and builds it.

    ``in_memory_stores``: stores of the DSL live in memory unless they say otherwise (their
    changelogs stay). ``store_headers``: they keep record headers (KIP-1271).
    ``window_emit_interval`` and ``outer_join_emit_interval``: least wall-clock time between two
    looks for closed windows and for unmatched rows; event time decides what they find, so they
    only trade latency for work.

    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", key=str, value=str, name="clicks")
    >>> clicks.map_values(str.upper, value=str, name="upper").to("loud", name="out")
    >>> print(builder.build().describe(), end="")
    Topologies:
       Sub-topology: 0
        Source: clicks (topics: [clicks])
          --> upper
        Processor: upper (stores: [])
          --> out
          <-- clicks
        Sink: out (topic: loud)
          <-- upper
    <BLANKLINE>
    """

    def __init__(
        self,
        *,
        in_memory_stores: bool = False,
        store_headers: bool = False,
        window_emit_interval: timedelta = timedelta(seconds=1),
        outer_join_emit_interval: timedelta = timedelta(seconds=1),
    ) -> None:
        self.graph = LogicalGraph()
        self.defaults = StoreDefaults(in_memory_stores, store_headers)
        self.window_emit_interval_ms = to_ms(window_emit_interval, "window_emit_interval")
        self.outer_join_emit_interval_ms = to_ms(
            outer_join_emit_interval, "outer_join_emit_interval"
        )
        #: repartition topics that several aggregations of one named group share
        self.group_topics: dict[tuple[Any, str], LogicalNode] = {}
        self._built: Topology | None = None

    def build(self, optimization: str | Iterable[str] = "none") -> Topology:
        """Check and freeze. ``optimization``: "none", "all", or a set of rule names.

        Raises TopologyError, with the user's file and line, for a graph that cannot run. A builder
        builds once.
        """
        if self._built is not None:
            raise TopologyError(
                "This StreamsBuilder has already built its topology. Keep the result, or declare"
                " the topology in a function and call that with a new builder."
            )
        optimize(self.graph, rules_of(optimization))
        self._built = make_topology(self.graph.write())
        return self._built
