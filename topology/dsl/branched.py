"""split(): one stream into several, by the first predicate that accepts a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import misdeclared
from logstate.topology.declaring.naming import check_name
from logstate.topology.dsl.flow import K, StreamFlow, V
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.streams.branch import BranchNode
from logstate.topology.operators.streams.pass_through import PassThroughNode

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream

Chain = Callable[["KStream[Any, Any]"], "KStream[Any, Any] | None"]


class BranchedKStream(Generic[K, V]):
    """The branches of one ``split()``; a record goes to the first that accepts it, and to no other.

    >>> from logstate import StreamsBuilder
    >>> split = StreamsBuilder().stream("orders", value=int).split(name="by-size-")
    >>> sorted(split.branch(lambda cents: cents > 99, name="large").default_branch(name="small"))
    ['by-size-large', 'by-size-small']

    Semantics: see :meth:`KStream.split`. Without any branch all records are dropped.

    Source: Kafka Streams' ``BranchedKStream`` (KIP-418).
    """

    def __init__(self, stream: StreamFlow[K, V], name: str | None) -> None:
        self._stream: Any = stream
        self._graph = stream.builder.graph
        self._name = self._graph.names.named(name, "KSTREAM-BRANCH-")
        self._node = BranchNode(self._name)
        self._logical = stream._add(self._node)
        self._branches: dict[str, KStream[K, V]] = {}

    def branch(
        self,
        predicate: Callable[..., object],
        *,
        name: str | None = None,
        chain: Chain | None = None,
    ) -> BranchedKStream[K, V]:
        """A branch for what the predicate accepts and no branch before it did.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split()
        >>> split = split.branch(lambda cents: cents > 99, chain=lambda large: large.to("large"))
        >>> _ = split.branch(lambda cents: cents > 9, chain=lambda medium: medium.to("medium"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1), ("eve", 5, 2)])
        ...     driver.read("large", value=int), driver.read("medium", value=int)
        ([('bob', 250)], [('ada', 50)])

        Semantics: as :meth:`KStream.split`, but
            Order: kept within the branch; predicates are asked in the order of the calls.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            name: the branch is called split name + this; its number, from 1, if not given.
            chain: a function of the branch. The map of branches has the stream it returns, or no
                entry if it returns None.

        Returns:
            The split itself, for the next branch.

        Raises:
            TopologyError: the predicate has another shape, or there is a default branch already.

        Source: Kafka Streams' ``BranchedKStream.branch`` (KIP-418).
        """
        self._check_is_open()
        number = len(self._node.branches) + 1
        child = self._child_name(name, number)
        self._node.branches.append((callbacks.predicate(predicate), child))
        self._add(child, chain)
        return self

    def default_branch(
        self, *, name: str | None = None, chain: Chain | None = None
    ) -> dict[str, KStream[K, V]]:
        """A branch for what no other branch accepted; ends the split.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split(name="by-size-")
        >>> branches = split.branch(lambda cents: cents > 99, name="large").default_branch()
        >>> branches["by-size-0"].to("rest")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("rest", value=int)
        [('ada', 50)]

        Semantics: as :meth:`KStream.split`.

        Args:
            name: the branch is called split name + this; split name + "0" if not given.
            chain: as in :meth:`branch`.

        Returns:
            All branches by name, in the order of the calls.

        Raises:
            TopologyError: the name cannot be part of a topic's name.

        Source: Kafka Streams' ``BranchedKStream.defaultBranch`` (KIP-418).
        """
        self._check_is_open()
        child = self._child_name(name, 0)
        self._node.default = child
        self._add(child, chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split; records that no branch accepted are dropped.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split()
        >>> (large,) = split.branch(lambda cents: cents > 99).no_default_branch().values()
        >>> large.to("large")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int), driver.dropped_total
        ([('bob', 250)], 0)

        Semantics: as :meth:`KStream.split`, but
            Quirk: records dropped here are not counted: leaving them out is what was asked for.

        Returns:
            All branches by name, in the order of the calls.

        Source: Kafka Streams' ``BranchedKStream.noDefaultBranch`` (KIP-418).
        """
        return self._branches

    def _check_is_open(self) -> None:
        if self._node.default is not None:
            raise misdeclared(
                f"split {self._name!r} already has its default branch, which takes all that is"
                " left: nothing would reach another one. Call branch() before default_branch()."
            )

    def _child_name(self, name: str | None, number: int) -> str:
        return check_name(self._name + (str(number) if name is None else name), "a branch")

    def _add(self, child: str, chain: Chain | None) -> None:
        self._graph.names.burn()
        node = PassThroughNode(child)
        logical = ProcessorLogicalNode(node)
        self._graph.add(self._logical, logical)
        branch = self._stream._derive(child, logical)
        result = branch if chain is None else chain(branch)
        if result is not None:
            self._branches[child] = result
