"""Compiling a sub-topology for one task: every node becomes one closure, children first.

A node that several parents share is compiled once. ``forward`` is composed here: nothing below, one
child, or a loop over children in the order in which they were written.

User code begins when all nodes are compiled, parents first, as in Kafka Streams: schedules that are
due at one moment fire in the order in which ``init()`` made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import LogstateError, ProcessingError
from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.serde import Decoders
from logstate.topology.graph.blame import blame, labelled
from logstate.topology.graph.nodes import (
    Node,
    Process,
    ProcessorNode,
    SinkNode,
    SourceNode,
    TimestampExtractor,
)
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.streams.sink import compile_sink
from logstate.topology.plan.mutations import changing_nodes, watched_fan_out
from logstate.topology.processor.timestamp_extractors import wall_clock_time


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """How the task reads one topic."""

    name: str
    topic: str
    deserialize_key: Callable[[bytes], Any]
    deserialize_value: Callable[[bytes], Any]
    #: instead of these two, of keys and of values, where a serde looks at headers
    header_decoders: Decoders | None
    timestamp_extractor: TimestampExtractor | None
    process: StreamProcess
    offset_reset: str | timedelta | None
    is_internal: bool


def compile_sub_topology(sub_topology: SubTopology, task: TaskContext) -> dict[str, CompiledSource]:
    """Resolved topic -> what to do with its records. Asks the task for its stores right away."""
    compiled: dict[str, Process] = {}
    changing = changing_nodes(sub_topology)
    starting: dict[str, list[Callable[[], None]]] = {}
    apart = {n.name for n in sub_topology.nodes if getattr(n, "gets_no_results", False)}
    # Parents come before children in the plan, so children first is the plan backwards.
    for node in reversed(sub_topology.nodes):
        names = [name for name in sub_topology.children[node.name] if name not in apart]
        below = [compiled[name] for name in names]
        task.starting = starting[node.name] = []
        task.compiling = node.name
        with _naming_errors(node, task):
            process = _compile_node(node, task, below, names, changing)
        if process is not _nothing_below:
            process = labelled(process, node.name)
        compiled[node.name] = process
    sources = {
        source.topic: source
        for node in sub_topology.sources
        for source in _compile_source(node, task, compiled[node.name])
    }
    for node in sub_topology.nodes:
        task.compiling = node.name
        with _naming_errors(node, task):
            for start in starting[node.name]:
                start()
    return sources


def _compile_node(
    node: Node,
    task: TaskContext,
    below: list[Process],
    names: Sequence[str],
    changing: frozenset[str],
) -> Process:
    has_table_edge = isinstance(node, ProcessorNode) and node.has_table_edge
    every = dict(zip(names, below, strict=True))
    if isinstance(node, ProcessorNode) and node.late is not None:
        names = [name for name in names if name != node.late]
        below = [every[name] for name in names]
    forward: Any = None
    if len(below) > 1:
        forward = watched_fan_out(task, node, names, below, changing, has_table_edge=has_table_edge)
    if forward is None:
        forward = _compose(below, has_table_edge=has_table_edge)
    if isinstance(node, ProcessorNode):
        return node.compile(task, forward, every)
    if isinstance(node, SinkNode):
        return compile_sink(node, task)
    process: Process = forward
    return process


@contextmanager
def _naming_errors(node: Node, task: TaskContext) -> Iterator[None]:
    """Add the origin to errors of suppliers, ``init()`` and serdes, which are the user's code.

    No error handler is called, because there is not a record.
    """
    try:
        yield
    except LogstateError:
        raise
    except Exception as exc:
        function = blame(exc).function
        place = f"declared at {node.declared_at}" if function is None else f"in {function}"
        raise ProcessingError(
            f"an operator could not be made: task {task.task_id}, node {node.name!r},"
            f" {place}: {type(exc).__name__}: {text_of(exc)}. No record was processed, so no"
            " handler is asked. Correct its supplier, init() or serde, and start again",
            task=str(task.task_id),
            node=node.name,
            function=function,
        ) from exc


def _compile_source(node: SourceNode, task: TaskContext, process: Any) -> list[CompiledSource]:
    compiled: list[CompiledSource] = []
    extractor = node.timestamp_extractor
    if extractor is wall_clock_time:  # of the task, which is the test driver's in tests
        extractor = _of_clock(task)
    for ref in node.topics:
        assert not ref.is_pattern, f"the topics of {node.name} are not known yet"
        topic = task.topic_name(ref.name, is_internal=ref.is_internal)
        with _naming_errors(node, task):
            deserialize_key = node.key.deserializer(topic, True)
            deserialize_value = node.deserialize_value(topic)
            decoders = node.header_decoders(topic)
        compiled.append(
            CompiledSource(
                node.name,
                topic,
                deserialize_key,
                deserialize_value,
                decoders,
                extractor,
                process,
                node.offset_reset,
                ref.is_internal,
            )
        )
    return compiled


def _of_clock(task: TaskContext) -> TimestampExtractor:
    return lambda _key, _value, _record_ms, _partition_ms: task.wall_clock_ms()


def _compose(children: Sequence[Callable[..., None]], *, has_table_edge: bool) -> Any:
    """One callable for any number of children."""
    if len(children) == 1:
        return children[0]
    if not children:
        return _nothing_below
    if len(children) == 2:
        return _edge_function(*children, has_table_edge=has_table_edge)

    def stream_edge(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    def table_edge(
        key: Any, new: Any, old: Any, timestamp: int, headers: Any, is_latest: bool
    ) -> None:
        for child in children:
            child(key, new, old, timestamp, headers, is_latest)

    return table_edge if has_table_edge else stream_edge


def _edge_function(
    first: Callable[..., None], second: Callable[..., None], *, has_table_edge: bool
) -> Callable[..., None]:
    def stream_edge(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        first(key, value, timestamp, headers)
        second(key, value, timestamp, headers)

    def table_edge(
        key: Any, new: Any, old: Any, timestamp: int, headers: Any, is_latest: bool
    ) -> None:
        first(key, new, old, timestamp, headers, is_latest)
        second(key, new, old, timestamp, headers, is_latest)

    return table_edge if has_table_edge else stream_edge


def _nothing_below(*_record: object) -> None:
    """Where the graph ends without a sink."""
