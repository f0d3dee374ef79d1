"""filter, merge and split of a stream: which records go where.

Nothing here changes a record: key, value, timestamp and headers stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.operators.filter import FilterNode
from logstate.topology.operators.pass_through import PassThroughNode
from logstate.topology.stream_flow import StreamFlow

if TYPE_CHECKING:
    from logstate.topology.branched import BranchedKStream
    from logstate.topology.stream import KStream


class RoutingOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

    @overload
    def filter(
        self, predicate: Callable[[V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    @overload
    def filter(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def filter(self, predicate: Callable[..., object], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records that ``predicate(value)`` or ``predicate(key, value)`` accepts.

        The predicate sees null keys and values as None. Order is kept.
        """
        return self._filter(predicate, name, keeps=True)

    @overload
    def filter_not(
        self, predicate: Callable[[V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def filter_not(
        self, predicate: Callable[..., object], *, name: str | None = None
    ) -> KStream[K, V]:
        """Drop the records that the predicate accepts."""
        return self._filter(predicate, name, keeps=False)

    def merge(self, *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """One stream of the records of all; in no order between them.

        Serdes are kept only where all inputs have the same one.
        """
        merged: Any = self
        for position, other in enumerate(others):
            suffix = "" if position == len(others) - 1 else f"-{position}"
            merged = merged._merge_one(other, None if name is None else name + suffix)
        return merged  # type: ignore[no-any-return]

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Route every record to the first branch that accepts it; see ``BranchedKStream``."""
        from logstate.topology.branched import BranchedKStream

        return BranchedKStream(self, name)

    def _filter(
        self, predicate: Callable[..., object], name: str | None, *, keeps: bool
    ) -> KStream[K, V]:
        node_name = self.builder.graph.names.named(name, "KSTREAM-FILTER-")
        function = callbacks.predicate(predicate)
        site = declaration_site()
        node = FilterNode(node_name, predicate=function, keeps=keeps, declared_at=site)
        return self._below(node, keeps_key=True, keeps_value=True)

    def _merge_one(self, other: KStream[K, V], name: str | None) -> KStream[K, V]:
        self._check_same_builder(other, "merge")
        node_name = self.builder.graph.names.named(name, "KSTREAM-MERGE-")
        node = PassThroughNode(node_name, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, merge=True)
        self.builder.graph.add([self.logical, other.logical], logical)
        return self._derive(
            node_name,
            logical,
            key=self.key if self.key is other.key else None,
            value=self.value if self.value is other.value else None,
            source_names=self.source_names | other.source_names,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )
