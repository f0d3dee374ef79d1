"""The physical nodes of a topology: what runs, one object per node that `describe()` shows.

Two levels, as in Kafka Streams. The DSL builds a *logical* graph (`graph.logical`) in the order of
the user's calls; optimisation passes rearrange it; then it writes the *physical* nodes of this
module into a plan (`plan.plan`). Operators are subclasses of :class:`ProcessorNode`, created
when the user calls the DSL and mutable until `build()` (a table source is materialised only when
something downstream needs it); afterwards they are not changed.

Compilation: a node is compiled once per task into ONE closure. Its children are compiled first and
handed over as ``forward``: a no-op without children, the child itself for one, a loop in order for
several. Stream edges call ``forward(key, value, timestamp, headers)``, table edges
``forward(key, new, old, timestamp, headers, is_latest)``; see `logstate.contracts.processing`.

Invariants: names are unique in a topology; a node's output edge is a table edge exactly if its
class says ``has_table_edge`` (every :class:`TableNode` does); ``compile`` keeps per-task state only
in the closure, never on the node.

A node class declares its fields, and is a dataclass by that: all of them but the name are given by
keyword.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext
from logstate.contracts.records import RecordContext, TopicPartition
from logstate.contracts.serde import (
    Decoders,
    Deserializer,
    Encoders,
    Serde,
    Serializer,
    header_decoders,
    header_encoders,
    inside,
)
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.declaring.declaration_site import declaration_site

F = TypeVar("F", bound="Callable[..., None]")


def late_edge(task: TaskContext, node: str, forward: F) -> F:
    """``forward`` itself if no handler is asked about what fails."""
    late_results: Any = getattr(task, "late_results", None)
    return forward if late_results is None else late_results.guarded(node, forward)


Process: TypeAlias = "StreamProcess | TableProcess"
#: what a closure calls with its results: that of the one child, or a loop over several
Forward: TypeAlias = Callable[..., None]
#: the closures of the children by their names
Children: TypeAlias = "Mapping[str, Process]"

#: extractor(key, value, record timestamp, partition time) -> event time; negative skips the record
TimestampExtractor: TypeAlias = "Callable[[Any, Any, int, int], int]"
#: partitioner(topic, key, value, partition count) -> partition, several, [] (drop), None (default)
Partitioner: TypeAlias = "Callable[[str, Any, Any, int], int | list[int] | None]"
#: topic chooser(key, value) or (key, value, record context) -> topic
TopicChooser: TypeAlias = "Callable[[Any, Any], str] | Callable[[Any, Any, RecordContext], str]"

__all__ = [
    "Children",
    "Declared",
    "Forward",
    "Node",
    "Partitioner",
    "Process",
    "ProcessorNode",
    "SinkNode",
    "SourceNode",
    "TableNode",
    "TimestampExtractor",
    "TopicChooser",
    "TopicPartition",
    "TopicRef",
    "ValueGetter",
]


class TopicRef(NamedTuple):
    """A topic in the plan. Internal ones get ``<application id>-`` in front at run time.

    With ``is_pattern`` the name is a regular expression: all topics that it matches as a whole.
    """

    name: str
    is_internal: bool = False
    is_pattern: bool = False


class ValueGetter(NamedTuple):
    """How a join reads the other table. ``as_of`` is None unless the table is versioned."""

    latest: Callable[[Any], StoredRow | None]
    as_of: Callable[[Any, int], StoredRow | None] | None = None
    #: the bytes of the latest value as they are kept; None if rows are computed when read
    latest_bytes: Callable[[Any], bytes | None] | None = None
    #: while an update is on its way, ``latest`` gives the value before it
    lags: bool = False
    #: the rows as they were forwarded last, if ``latest`` returns some that are still buffered
    forwarded: Callable[[Any], StoredRow | None] | None = None

    def as_forwarded(self) -> Callable[[Any], StoredRow | None]:
        """Return the reader for a join that later subtracts results computed from the rows."""
        return self.latest if self.forwarded is None else self.forwarded


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
class Declared:
    """Makes a dataclass, compared by identity, of every subclass."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False, kw_only=True)(cls)


class Node(Declared):
    """What every node has: its name in `describe()` and the user's ``file:line``."""

    #: whether its functions only look at values: what it forwards is what it was given
    passes_on: ClassVar[bool] = False

    name: str = field(kw_only=False)
    declared_at: str | None = field(default_factory=declaration_site)

    def retains_records(self) -> bool:
        """Whether a value that does not fit its store may have been made by operators above it."""
        return self.passes_on

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class SourceNode(Node):
    """Reads topics. Has no loop: the task decodes, extracts timestamps and calls its children."""

    topics: tuple[TopicRef, ...] = field(kw_only=False)
    key: Serde[Any] = field(kw_only=False)
    value: Serde[Any] = field(kw_only=False)
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | timedelta | None = None
    #: what an internal format puts around the decoder of its values
    around_value: Callable[[Deserializer[Any]], Deserializer[Any]] | None = None

    def deserialize_value(self, topic: str) -> Deserializer[Any]:
        """The value's decoder for a resolved topic."""
        read = self.value.deserializer(topic, False)
        return read if self.around_value is None else self.around_value(read)

    def header_decoders(self, topic: str) -> Decoders | None:
        """The decoders of serdes that look at headers; None where neither does."""
        found = header_decoders(self.key, self.value, topic)
        if found is None or self.around_value is None:
            return found
        return found[0], inside(found[1], self.around_value)


class ProcessorNode(Node, ABC):
    """An operator: its subclasses are in the rooms of ``topology/operators/``."""

    #: what kind of edge its output is
    has_table_edge: ClassVar[bool] = False
    #: it forwards one record for each that it receives, as `record_counts` assumes
    forwards_each: ClassVar[bool] = False
    #: a record that it forwards may go to some of its children only
    chooses_children: ClassVar[bool] = False
    #: it makes its records without those of its parents, which send it none
    gets_no_results: ClassVar[bool] = False
    #: it may be below a table that sends the changes of its rows in their place
    takes_deltas: ClassVar[bool] = False

    @property
    def operation(self) -> str | None:
        """The method that declared it, if its generated name does not say so."""
        return None

    @property
    def waits_for_stream_time(self) -> bool:
        """Whether it has results, or late records, that depend on its own stream time."""
        return False

    @property
    def own_idle_ms(self) -> int | None:
        """Its option ``close_on_idle``."""
        return None

    @property
    def close_on_idle_ms(self) -> int | None:
        """How long its inputs must be idle before its stream time advances; None: it waits."""
        return self.default_idle_ms if self.own_idle_ms is None else self.own_idle_ms

    #: the option of the builder, where it applies to this operator
    default_idle_ms: int | None = field(default=None, init=False)

    #: others that close on idle read, through internal topics, what it sends when it does
    is_awaited: bool = field(default=False, init=False)

    @property
    def open_clock(self) -> str:
        """The clock of a task that says whether it has something open: 1, or 0.

        Named after its first store, because the generated name of an operator may change.
        """
        own = (spec.name for spec in self.own_stores())
        return f"open:{next(iter((*own, *self.store_names())), self.name)}"

    #: the child that gets its late records, and none of its results; None: it drops them
    late: str | None = field(default=None, init=False)

    @property
    def sends_deltas(self) -> bool:
        """Whether it forwards changes of its rows in the place of rows, for ``to_stream`` only."""
        return False

    def own_stores(self) -> tuple[StoreSpec, ...]:
        """Stores that come into being with this node. Asked for when the plan is written."""
        return ()

    def store_names(self) -> tuple[str, ...]:
        """All stores this node touches, shown by `describe()`; they tie sub-topologies together.

        Its own; a node that reads or writes another one's names it here.
        """
        return tuple(one.name for one in self.own_stores())

    def global_store_names(self) -> tuple[str, ...]:
        """Global stores it reads: checked at build, not shown and not tying anything together."""
        return ()

    @abstractmethod
    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        """The closure of this node for one task. ``children`` is only for forward-to-child."""


class TableNode(ProcessorNode):
    """An operator whose output is a table: a changelog plus a way to read the current row.

    ``sends_old_values`` is decided at build time: an operator that needs old values calls
    :meth:`enable_sending_old_values` on its parent, which passes it up until a node that can
    produce them (Kafka Streams' ``enableSendingOldValues``). Read it inside ``compile``.
    """

    has_table_edge = True

    #: its own, where its rows are kept; None: they are computed when read
    store: StoreSpec | None
    sends_old_values: bool = field(default=False, init=False)
    #: an old value is the new value that was sent before, and None if none was, also where Kafka
    #: Streams sends another one
    sends_exact_changes: bool = field(default=False, init=False)
    #: distinguishes the nodes that write one store: the groups of a cogroup, in order
    group_number: int = field(default=0, init=False)

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return () if self.store is None else (self.store,)

    def enable_sending_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        """Ask for old values. ``force``: materialise a source if that is what it takes.

        Returns whether this node will send them. The default is for nodes with a store of their
        own; nodes without one override it and ask their parents first.
        """
        self.sends_old_values = True
        return True

    def enable_exact_changes(self) -> None:
        """Ask for old values that are what was sent before; those must be enabled, too.

        The default is for nodes with a store of their own; others ask their parents.
        """
        self.sends_exact_changes = True

    @abstractmethod
    def getter_store_names(self) -> tuple[str, ...]:
        """Stores that :meth:`value_getter` reads: a join node must be connected to them."""

    @abstractmethod
    def value_getter(self, task: TaskContext) -> ValueGetter:
        """Reads the current row: from the store if materialised, else derived from the parent."""

    def materialize(self) -> None:
        """Make the rows readable, called when a downstream operator needs the getter."""

    def versioned_store(self) -> StoreSpec | None:
        """The store whose history its rows are read from, its own or one above; None: no history.

        Nodes that compute their rows from a parent's ask the parent.
        """
        store = self.store
        return store if store is not None and store.is_versioned else None

    def is_versioned(self) -> bool:
        """Whether rows carry history (KIP-889): decides as-of lookups and is_latest handling."""
        return self.versioned_store() is not None


class SinkNode(Node):
    """Writes a topic, or the topic that a function chooses per record.

    With ``takes_table_edge`` its input is a table edge; the value that is serialised is then the
    pair ``(new, old)``.
    """

    topic: TopicRef | TopicChooser = field(kw_only=False)
    key: Serde[Any] = field(kw_only=False)
    value: Serde[Any] = field(kw_only=False)
    #: before every topic that a chooser returns
    topic_prefix: str = ""
    #: whether a chooser is given the record's context
    takes_context: bool = True
    partitioner: Partitioner | None = None
    #: windowed keys too: those of a repartition topic, as Kafka Streams places them
    places_whole_keys: bool = False
    #: what an internal format puts around the encoder of its values
    around_value: Callable[[Serializer[Any]], Serializer[Any]] | None = None
    takes_table_edge: bool = False

    def serialize_value(self, topic: str) -> Serializer[Any]:
        """The value's encoder for a resolved topic."""
        write = self.value.serializer(topic, False)
        return write if self.around_value is None else self.around_value(write)

    def header_encoders(self, topic: str) -> Encoders | None:
        """The encoders of serdes that look at headers; None where neither does."""
        found = header_encoders(self.key, self.value, topic)
        if found is None or self.around_value is None:
            return found
        return found[0], inside(found[1], self.around_value)
