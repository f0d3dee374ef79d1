"""split(): one stream into several, by the first predicate that accepts a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from logstate.errors import TopologyError
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.naming import check_name
from logstate.topology.operators.branch import BranchNode
from logstate.topology.operators.pass_through import PassThroughNode

if TYPE_CHECKING:
    from logstate.topology.stream import KStream

Chain = Callable[["KStream[Any, Any]"], "KStream[Any, Any] | None"]


class BranchedKStream(Generic[K, V]):
    """The branches of one ``split()``.

    ::

        branches = (
            orders.split(name="by-size-")
            .branch(lambda order: order.total > 1000, name="large")
            .default_branch(name="small")
        )
        branches["by-size-large"].to("large-orders")
    """

    def __init__(self, stream: Flow[K, V], name: str | None) -> None:
        self._stream: Any = stream
        self._graph = stream.builder.graph
        self._name = self._graph.names.named(name, "KSTREAM-BRANCH-")
        self._node = BranchNode(self._name, declared_at=declaration_site())
        self._logical = ProcessorLogicalNode(self._node)
        self._graph.add(stream.logical, self._logical)
        self._branches: dict[str, KStream[K, V]] = {}

    def branch(
        self,
        predicate: Callable[..., object],
        *,
        name: str | None = None,
        chain: Chain | None = None,
    ) -> BranchedKStream[K, V]:
        """A branch for what ``predicate(value)`` or ``predicate(key, value)`` accepts.

        It is named split name + ``name`` (or its number, from 1). ``chain`` is applied to the
        stream; the map of branches has what it returns, or nothing if it returns None.
        """
        if self._node.default is not None:
            raise TopologyError(
                f"split {self._name!r} already has its default branch, which comes last.",
                declared_at=declaration_site(),
            )
        number = len(self._node.branches) + 1
        child = self._child_name(name, number)
        self._node.branches.append((callbacks.predicate(predicate), child))
        self._add(child, chain)
        return self

    def default_branch(
        self, *, name: str | None = None, chain: Chain | None = None
    ) -> dict[str, KStream[K, V]]:
        """A branch for the rest, and the map of all branches by name."""
        child = self._child_name(name, 0)
        self._node.default = child
        self._add(child, chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """The map of all branches by name; records that fit none are dropped."""
        return self._branches

    def _child_name(self, name: str | None, number: int) -> str:
        return check_name(self._name + (str(number) if name is None else name), "a branch")

    def _add(self, child: str, chain: Chain | None) -> None:
        self._graph.names.burn()
        node = PassThroughNode(child, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node)
        self._graph.add(self._logical, logical)
        parent = self._stream
        branch = parent._derive(
            child,
            logical,
            key=parent.key,
            value=parent.value,
            source_names=parent.source_names,
            needs_repartition=parent.needs_repartition,
        )
        result = branch if chain is None else chain(branch)
        if result is not None:
            self._branches[child] = result
