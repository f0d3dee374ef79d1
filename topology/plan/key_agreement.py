"""Check when a topology is built that topics whose records meet by key encode their keys alike.

Equal partition counts are not enough. The partition of a record follows from the bytes of its key,
so a key that one topic has as int64 and the other as int32 is in different partitions, and tasks of
different partitions never meet. With one partition, and in the test driver, everything would seem
to work.

Who meets: the sides of a join, the groups of a cogroup, and what reaches one store of an operator
within its sub-topology (streams that were merged before they were counted). An internal topic whose
writer places its records by something else than their keys is left out, such as the answers of a
foreign-key join, which go back to the partition that asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from logstate.contracts.errors import TopologyError
from logstate.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.plan.key_bytes import key_bytes_agree

_LOGGER = logging.getLogger(__name__)


def check_key_bytes(plan: PlanBuilder) -> None:
    """Raises TopologyError if they do not; warns if that is unknown."""
    for sources, meeting in _meetings(plan):
        first, *others = sources
        for other in others:
            agree = key_bytes_agree(first.key.describe(), other.key.describe())
            if agree is False:
                problem = _difference(first, other, meeting)
                raise TopologyError(problem, declared_at=other.declared_at)
            if agree is None:
                _LOGGER.warning("%s", _possible_mismatch(first, other, meeting))


def _meetings(plan: PlanBuilder) -> Iterator[tuple[list[SourceNode], str]]:
    """Sources whose records meet, and where."""
    seen: set[tuple[str, ...]] = set()
    placed_by_key = _placed_by_key(plan)

    def unseen(names: Iterable[str], meeting: str) -> Iterator[tuple[list[SourceNode], str]]:
        sources = [placed_by_key[name] for name in sorted(placed_by_key.keys() & set(names))]
        pair = tuple(source.name for source in sources)
        if len(sources) > 1 and pair not in seen:
            seen.add(pair)
            yield sources, meeting

    for names in plan.copartitioned:
        yield from unseen(names, "are joined, or grouped into one table")
    for node in plan.nodes.values():
        if isinstance(node, ProcessorNode) and node.own_stores():
            meeting = f"both reach {node.name!r}, which keeps rows by key"
            yield from unseen(_sources_above(plan, node.name), meeting)


def _placed_by_key(plan: PlanBuilder) -> dict[str, SourceNode]:
    """The sources whose records lie where the bytes of their keys say."""
    placed_otherwise = {
        node.topic
        for node in plan.nodes.values()
        if isinstance(node, SinkNode)
        and isinstance(node.topic, TopicRef)
        and node.topic.is_internal
        and node.partitioner is not None
    }
    return {
        name: node
        for name, node in plan.nodes.items()
        if isinstance(node, SourceNode) and not placed_otherwise & set(node.topics)
    }


def _sources_above(plan: PlanBuilder, name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(plan.parents[one])
    return found


def _difference(first: SourceNode, other: SourceNode, meeting: str) -> str:
    return (
        f"{_topics(first)} has keys of {first.key!r} (declared at {first.declared_at}), and"
        f" {_topics(other)} keys of {other.key!r}. They {meeting}, but equal keys have other bytes,"
        " so they are in other partitions and would not meet where there are several. If one of"
        " the declarations does not match its topic, correct its key=. Otherwise write one side"
        " again with the keys of the other, before they meet: stream.repartition(name=..., key=...,"
        " value=...), behind a select_key() where the keys become other objects, and .to_table()"
        " behind it for a table"
    )


def _possible_mismatch(first: SourceNode, other: SourceNode, meeting: str) -> str:
    return (
        f"{_topics(first)} has keys of {first.key!r} (declared at {first.declared_at}), and"
        f" {_topics(other)} keys of {other.key!r} (declared at {other.declared_at})."
        f" They {meeting}, but the serdes' descriptions do not show whether equal keys have equal"
        " bytes. If not, equal keys are in other partitions and never meet. If so,"
        " let describe() of both return the same"
    )


def _topics(source: SourceNode) -> str:
    names = ", ".join(repr(topic.name) for topic in source.topics)
    return f"topic {names}" if len(source.topics) == 1 else f"topics {names}"
