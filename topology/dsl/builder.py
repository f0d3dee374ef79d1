"""StreamsBuilder: where a topology starts."""

from __future__ import annotations

from collections.abc import Iterable

from logstate.topology.declaring.declaration_site import misdeclared
from logstate.topology.dsl.added_stores import AddedStores
from logstate.topology.dsl.input_topics import InputTopics
from logstate.topology.plan.optimization import optimize, rules_of
from logstate.topology.plan.plan import Topology, make_topology


class StreamsBuilder(InputTopics, AddedStores):
    """Declares a topology, call by call, and builds it.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str, name="clicks")
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

    Names: whatever ends up in the name of a topic or directory (stores, repartition topics, joins
    that keep state) has to be named; other operators get Kafka Streams' generated names, which only
    descriptions, metrics and errors show. So inserting an operator never orphans state.

    Args:
        in_memory_stores: stores of the DSL live in memory unless they say otherwise; their
            changelogs stay.
        store_headers: stores of the DSL keep record headers (KIP-1271).
        window_emit_interval: least wall-clock time between two looks for closed windows, for
            ``emit="close"``. Event time decides what a look finds, so this trades latency for work.
            If not given, a second; in the test driver nothing, so that results come at once.
        outer_join_emit_interval: the same for the unmatched rows of left and outer stream joins.

    Source: Kafka Streams' ``StreamsBuilder``; required names: KIP-1111.
    """

    _built: Topology | None = None

    def build(self, optimization: str | Iterable[str] = "none") -> Topology:
        """Check the graph as a whole, optimise it if asked to, and freeze it.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="in").to("out")
        >>> [source.name for source in builder.build().sub_topologies[0].sources]
        ['in']

        Semantics: results do not depend on ``optimization``, but for the order and, where rows are
        about to expire, the number of a self-join's results. Topics and stores do: switching it for
        an application that has state moves that state.

        - ``"reuse_source_topics"``: the store of ``table()`` has the source topic as its changelog.
          It should be compacted, and old values that compaction has removed are unknown after a
          restore; the start warns of both.
        - ``"merge_repartition_topics"``: several repartitions behind one new key become one topic.
        - ``"single_store_self_join"``: a stream joined with itself keeps one window store.

        Args:
            optimization: "none", "all", or a set of those three.

        Returns:
            The topology, for ``Application`` or ``TopologyTestDriver``.

        Raises:
            TopologyError: the graph cannot run; the message has file and line of the declaration.
                Also for a second call: a builder builds once.

        Source: Kafka Streams' ``StreamsBuilder.build`` and ``topology.optimization`` (KIP-295,
        KIP-862).
        """
        if self._built is not None:
            raise misdeclared(
                "This StreamsBuilder has already built its topology. Keep the result, or declare"
                " the topology in a function and call that with a new builder."
            )
        optimize(self.graph, rules_of(optimization))
        self._built = make_topology(self.graph.write())
        self.graph.is_built = True
        return self._built
