"""The common part of streams and tables: their builder, their place in the graph, their serdes.

``key`` and ``value`` are None if no serde was given. That is an error only where objects have to
become bytes: at a topic or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Generic, Required, Self, TypedDict, TypeVar

from logstate.contracts.serde import Serde
from logstate.contracts.serde_types import SerdeLike, TypedSerde
from logstate.topology.declaring.argument_checks import check_flags
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.serde_arguments import optional_serde, required_serde
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.materialized import StoreDefaults
from logstate.topology.graph.logical import LogicalGraph, LogicalNode, ProcessorLogicalNode
from logstate.topology.graph.nodes import ProcessorNode

K = TypeVar("K")
V = TypeVar("V")
#: what a join's function makes
R = TypeVar("R")
N = TypeVar("N", bound=ProcessorNode)


@dataclass(frozen=True)
class LateStream:
    """A late stream until the user takes it: its place in the graph, and the serdes of records."""

    logical: LogicalNode
    source_names: frozenset[str]
    key: Serde[Any] | None
    value: Serde[Any] | None


class PairOptions(TypedDict, Generic[K, V], total=False):
    """Options of an operator that makes new keys and values: their serdes, its name."""

    key: SerdeLike[K]
    value: SerdeLike[V]
    name: str | None


class ValueOptions(TypedDict, Generic[V], total=False):
    """Options of an operator that makes new values: their serde, its name."""

    value: SerdeLike[V]
    name: str | None


class TypedValueOptions(TypedDict, Generic[V], total=False):
    """The same with a serde that determines the type of values; None is a value of every type."""

    value: Required[TypedSerde[V]]
    name: str | None


class InternalStreamsBuilder:
    """The builder as streams and tables need it: the graph that they add to, and its settings."""

    def __init__(
        self,
        *,
        in_memory_stores: bool = False,
        store_headers: bool = False,
        window_emit_interval: timedelta | None = None,
        outer_join_emit_interval: timedelta | None = None,
        close_on_idle: timedelta | None = None,
    ) -> None:
        check_flags(
            "StreamsBuilder", in_memory_stores=in_memory_stores, store_headers=store_headers
        )
        self.graph = LogicalGraph()
        self.defaults = StoreDefaults(in_memory_stores, store_headers)
        #: None: what runs the topology decides
        self.window_emit_interval_ms = _interval_ms(window_emit_interval, "window_emit_interval")
        self.outer_join_emit_interval_ms = _interval_ms(
            outer_join_emit_interval, "outer_join_emit_interval"
        )
        self.close_on_idle_ms = (
            None
            if close_on_idle is None
            else duration_ms(close_on_idle, "close_on_idle of the builder", at_least=1)
        )
        #: repartition topics that several aggregations of one named group share
        self.group_topics: dict[tuple[Any, str], LogicalNode] = {}
        #: by name, those that operators were declared with
        self.late_streams: dict[str, LateStream] = {}


def _interval_ms(interval: timedelta | None, what: str) -> int | None:
    return None if interval is None else duration_ms(interval, what)


def left_out(part: str, *parents: LogicalNode) -> str:
    """Explain why the serde of the keys or values from these nodes is not known."""
    above = list(parents)
    for node in above:
        if part not in node.leaves_out:
            above.extend(parent for parent in node.parents if parent not in above)
        elif node.merge:
            return f"{node.name!r} brings streams together whose serdes differ"
        else:
            place = "" if node.declared_at is None else f" (declared at {node.declared_at})"
            return (
                f"operator {node.name!r}{place} makes new objects and does not say how they become"
                " bytes"
            )
    return "it has several streams, whose serdes differ"


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Generic[K, V]):
    """A stream or table at one point of the graph. Immutable: every operator makes a new one."""

    builder: InternalStreamsBuilder
    name: str
    logical: LogicalNode
    #: physical sources of its sub-topology, whose topics must be co-partitioned in a join
    source_names: frozenset[str]
    key: Serde[Any] | None
    value: Serde[Any] | None

    @classmethod
    def _of(cls, flow: Flow[Any, Any]) -> Self:
        """Return the handle for what was built: a subclass that adds methods and no fields."""
        return cls(**{one.name: getattr(flow, one.name) for one in fields(flow)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _key_serde(self, spec: Any, use: str) -> Serde[Any]:
        """The key's serde: the given one, else the inherited one, else an error."""
        return required_serde(
            spec,
            self.key,
            f"the key of {use}",
            "key=",
            missing=lambda: left_out("key", self.logical),
        )

    def _value_serde(self, spec: Any, use: str, option: str = "value=") -> Serde[Any]:
        return required_serde(
            spec,
            self.value,
            f"the value of {use}",
            option,
            missing=lambda: left_out("value", self.logical),
        )

    @staticmethod
    def _new_serde(logical: LogicalNode, part: str, spec: Any, what: str) -> Serde[Any] | None:
        """The serde of new keys or values of an operator, which it may leave out."""
        serde = optional_serde(spec, None, what)
        if serde is None:
            logical.leaves_out.add(part)
        return serde

    def _check_same_builder(self, other: Flow[Any, Any], what: str) -> None:
        if other.builder is not self.builder:
            raise declaration_error(
                f"{what}: {self.name!r} and {other.name!r} come from different StreamsBuilders. One"
                " topology is built by one builder."
            )

    def _node(self, kind: Callable[..., N], name: str | None, prefix: str, **options: Any) -> N:
        """A new operator, under the given name or one that is generated with the prefix."""
        node_name = self.builder.graph.names.named(name, prefix)
        return kind(node_name, **options)

    def _add(self, node: ProcessorNode, **marks: Any) -> ProcessorLogicalNode:
        """Put an operator below this flow."""
        logical = ProcessorLogicalNode(node, **marks)
        self.builder.graph.add(self.logical, logical)
        return logical

    def _derive(self, name: str, logical: LogicalNode, **changed: Any) -> Self:
        """A flow of the same kind at another point of the graph."""
        for part in ("key", "value"):
            if changed.get(part, self) is None and getattr(self, part) is not None:
                logical.leaves_out.add(part)
        return replace(self, name=name, logical=logical, **changed)


@dataclass(frozen=True, eq=False)
class GlobalKTable(Generic[K, V]):
    """A whole topic as a table in every instance; read by joins, and by processors under
    ``store_name``.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().global_table("cities", value=str, store="cities").store_name
    'cities'

    Semantics: every instance reads all partitions, and has read them before its tasks start. There
    is no changelog: the topic is the log. It is not synchronized in time with streams, and has no
    operators: it can be looked up, not aggregated.

    Source: Kafka Streams' ``GlobalKTable`` (KIP-99).
    """

    builder: InternalStreamsBuilder
    name: str
    store_name: str
