"""Building the joins of two tables: by primary key and by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypedDict, TypeVar

from logstate.contracts.serde_types import SerdeLike
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.aggregations import value_serde
from logstate.topology.dsl.flow import R
from logstate.topology.dsl.foreign_key_join import foreign_key_join
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import LogicalNode
from logstate.topology.graph.nodes import Partitioner
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.operators.joins.table_join import TableJoinMergeNode, TableJoinNode

T = TypeVar("T", bound=TableFlow[Any, Any])
Joiner = Callable[[Any, Any, Any], Any]
JoinKind = Literal["inner", "left", "outer"]


class TableJoinOptions(TypedDict, Generic[R], total=False):
    """Options of a table-table join: foreign key, store, the result's serde, name."""

    foreign_key: Callable[..., Any] | None
    store: str | Materialized | None
    value: SerdeLike[R]
    partitioner: Partitioner | None
    other_partitioner: Partitioner | None
    name: str | None


class TableJoinLogicalNode(LogicalNode):
    """Two join nodes, each below its own table and reading the other's rows, and their union."""

    this: TableJoinNode
    other: TableJoinNode
    union: TableJoinMergeNode
    this_parent: LogicalNode
    other_parent: LogicalNode

    def write(self, plan: PlanBuilder) -> None:
        plan.add_processor(self.this, [self.this_parent.name])
        plan.add_processor(self.other, [self.other_parent.name])
        plan.add_processor(self.union, [self.this.name, self.other.name])

    def use_versioned_semantics(self, parent: LogicalNode) -> None:
        if parent is self.this_parent:
            self.this.use_versioned_semantics = True
        if parent is self.other_parent:
            self.other.use_versioned_semantics = True


def join_tables(
    left: T,
    right: TableFlow[Any, Any],
    joiner: Callable[..., Any],
    kind: JoinKind,
    *,
    foreign_key: Callable[..., Any] | None = None,
    store: str | Materialized | None = None,
    value: Any = None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    name: str | None = None,
) -> T:
    """Join rows of ``left`` with rows of ``right`` by key, or by a foreign key in the left ones."""
    function = callbacks.joiner(joiner, value=value)
    hint = "Make a stream one by to_table(); a stream can join a table the other way round."
    check_kind(right, TableFlow, "A table join", "a KTable", hint)
    left._check_same_builder(right, "join")
    callbacks.partitioner(partitioner)
    callbacks.partitioner(other_partitioner)
    options = materialized(store)
    if foreign_key is None:
        return _join_by_key(left, right, function, kind, options, value, name)
    key_of = callbacks.mapper(foreign_key, "foreign key function")
    join_name = required_name(
        name,
        "A foreign-key join",
        "its two internal topics and its subscription store are named after it",
        'name="..."',
    )
    result = optional_serde(value, None, f"the value of join {join_name!r}")
    return foreign_key_join(
        left,
        right,
        foreign_key=key_of,
        joiner=function,
        is_left=kind == "left",
        name=join_name,
        store=None if options is None else _joined_store(left, options, value),
        value=result,
        partitioner=partitioner,
        other_partitioner=other_partitioner,
        declared_at=declaration_site(),
    )


def _join_by_key(
    left: T,
    right: TableFlow[Any, Any],
    joiner: Joiner,
    kind: JoinKind,
    options: Materialized | None,
    value: Any,
    name: str | None,
) -> T:
    graph = left.builder.graph
    merge_name = graph.names.named(name, "KTABLE-MERGE-")
    sources = left.source_names | right.source_names
    graph.copartition(sources)
    if kind != "inner":
        left.node.enable_sending_old_values(force=True)
    if kind == "outer":
        right.node.enable_sending_old_values(force=True)
    left.node.materialize()
    right.node.materialize()
    this_name = graph.names.suffixed(name, "-join-this", "KTABLE-JOINTHIS-")
    other_name = graph.names.suffixed(name, "-join-other", "KTABLE-JOINOTHER-")
    this = TableJoinNode(
        this_name, side="left", kind=kind, this=left.node, other=right.node, joiner=joiner,
    )  # fmt: skip
    other = TableJoinNode(
        other_name, side="right", kind=kind, this=right.node, other=left.node, joiner=joiner,
    )  # fmt: skip
    spec = None if options is None else _joined_store(left, options, value)
    merge = TableJoinMergeNode(merge_name, left=this, right=other, store=spec)
    logical = TableJoinLogicalNode(
        merge_name,
        this=this,
        other=other,
        union=merge,
        this_parent=left.logical,
        other_parent=right.logical,
        output_versioned=spec is not None and spec.is_versioned,
    )
    graph.add(left.logical, logical)
    graph.add(right.logical, logical)
    serde = optional_serde(value, None, f"the value of join {merge_name!r}")
    return left._derive(
        merge_name,
        logical,
        source_names=sources,
        value=serde if spec is None else spec.value,
        node=merge,
    )


def _joined_store(left: TableFlow[Any, Any], options: Materialized, value: Any) -> StoreSpec:
    return key_value_spec(
        options,
        left._key_serde(options.key, f"store {options.name!r}"),
        value_serde(options, value),
        left.builder.defaults,
    )
