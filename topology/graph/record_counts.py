"""Which counted topics determine how many records an operator receives.

A task counts the records that it reads from each topic and that it writes to each topic; it counts
nothing per operator, which would cost time for every record. The rest follows from the graph:
an operator that forwards one record for each that it receives forwards as many as it receives, and
an operator receives what those above it forward. So counts of topics extend downwards from the
sources and upwards from the sinks, up to operators that forward a number of records that is not
known, such as filters and aggregates. Records that an operator drops count as received there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from logstate.topology.graph.nodes import Node, ProcessorNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology


class TopicCount(NamedTuple):
    """The number of records that tasks read from a topic, or write to it."""

    topic: TopicRef
    is_written: bool = False


#: a sum of counts
Sum: TypeAlias = "tuple[TopicCount, ...]"


def received_counts(parts: Iterable[SubTopology]) -> dict[int, dict[str, Sum]]:
    """Map sub-topologies and their nodes to the sum of what each node receives, where known."""
    every = list(parts)
    writers: Counter[TopicRef] = Counter()
    for part in every:
        writers.update({ref: len(sinks) for ref, sinks in part.sinks_into.items()})
    return {part.id: _Counts(part, writers).received for part in every}


class _Counts:
    """Extends the counts of one sub-topology until nothing more follows."""

    def __init__(self, part: SubTopology, writers: Mapping[TopicRef, int]) -> None:
        self._part = part
        self._nodes = {node.name: node for node in part.nodes}
        self.received: dict[str, Sum] = {}
        self._forwarded: dict[str, Sum] = {}
        for source in part.sources:
            if not any(ref.is_pattern for ref in source.topics):
                found = tuple(TopicCount(ref) for ref in source.topics)
                self.received[source.name] = self._forwarded[source.name] = found
        for ref, sinks in part.sinks_into.items():
            # A partitioner may write a record to several partitions, or to none.
            if writers[ref] == 1 and sinks[0].partitioner is None:
                self.received[sinks[0].name] = (TopicCount(ref, is_written=True),)
        known = -1
        while known < (known := len(self.received) + len(self._forwarded)):
            for node in part.nodes:
                self._extend(node)
            for node in reversed(part.nodes):
                self._extend(node)

    def _extend(self, node: Node) -> None:
        name = node.name
        above = self._part.parents.get(name, ())
        if name not in self.received and above:
            sums = [self._forwarded.get(one) for one in above]
            if all(map(self._forwards_to_all, above)) and None not in sums:
                self.received[name] = tuple(count for one in sums for count in one or ())
        if _forwards_each(node):
            self._copy(self.received, self._forwarded, name)
            self._copy(self._forwarded, self.received, name)
        if name not in self._forwarded and self._forwards_to_all(name):
            for below in self._part.children.get(name, ()):
                if self._part.parents[below] == (name,) and below in self.received:
                    self._forwarded[name] = self.received[below]

    @staticmethod
    def _copy(known: Mapping[str, Sum], wanted: dict[str, Sum], name: str) -> None:
        if name in known:
            wanted.setdefault(name, known[name])

    def _forwards_to_all(self, name: str) -> bool:
        node = self._nodes[name]
        return not isinstance(node, ProcessorNode) or not node.chooses_children


def _forwards_each(node: Node) -> bool:
    return isinstance(node, ProcessorNode) and node.forwards_each
