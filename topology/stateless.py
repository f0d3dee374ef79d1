"""The operators of a stream that need no state: filter, map, merge, peek and their kin.

Nothing here changes timestamps or headers; results keep those of their record. What changes keys
marks the stream, so that the next grouping or join goes through a repartition topic first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, overload

from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V, optional_serde
from logstate.topology.graph import ProcessorNode
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.operators.filter import FilterNode
from logstate.topology.operators.flat_map import FlatMapNode
from logstate.topology.operators.flat_map_values import FlatMapValuesNode
from logstate.topology.operators.map import MapNode
from logstate.topology.operators.map_values import MapValuesNode
from logstate.topology.operators.pass_through import PassThroughNode
from logstate.topology.operators.peek import PeekNode
from logstate.topology.operators.print import PrintNode
from logstate.topology.operators.select_key import SelectKeyNode

if TYPE_CHECKING:
    from logstate.topology.branched import BranchedKStream
    from logstate.topology.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")


class StatelessOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

    if TYPE_CHECKING:
        needs_repartition: bool

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

    @overload
    def map(
        self,
        mapper: Callable[[V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    def map(
        self,
        mapper: Callable[..., tuple[Any, Any]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Replace every record by the ``(key, value)`` that the mapper returns.

        ``key`` and ``value`` are serdes of the results, needed before the next topic or store.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-MAP-")
        function = callbacks.mapper(mapper)
        node = MapNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, key_changing=True, key=key, value=value)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Replace every value by what the mapper returns; keys stay, so nothing is repartitioned.

        The mapper sees null values as None.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-MAPVALUES-")
        function = callbacks.mapper(mapper)
        node = MapValuesNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, value_changing=True, value=value)

    @overload
    def flat_map(
        self,
        mapper: Callable[[V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    def flat_map(
        self,
        mapper: Callable[..., Iterable[tuple[Any, Any]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Replace every record by any number of ``(key, value)`` pairs, in order."""
        node_name = self.builder.graph.names.named(name, "KSTREAM-FLATMAP-")
        function = callbacks.mapper(mapper)
        node = FlatMapNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, key_changing=True, key=key, value=value)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Replace every value by any number of values under the same key, in order."""
        node_name = self.builder.graph.names.named(name, "KSTREAM-FLATMAPVALUES-")
        function = callbacks.mapper(mapper)
        node = FlatMapValuesNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, value_changing=True, value=value)

    @overload
    def select_key(
        self, mapper: Callable[[V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    @overload
    def select_key(
        self, mapper: Callable[[K, V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    def select_key(
        self, mapper: Callable[..., Any], *, key: Any = None, name: str | None = None
    ) -> KStream[Any, V]:
        """Give every record the key that the mapper returns."""
        node_name = self.builder.graph.names.named(name, "KSTREAM-KEY-SELECT-")
        function = callbacks.mapper(mapper)
        node = SelectKeyNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, key_changing=True, key=key, keeps_value=True)

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def peek(
        self, action: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def peek(self, action: Callable[..., object], *, name: str | None = None) -> KStream[K, V]:
        """Call ``action(value)`` or ``action(key, value)``, then pass the record on.

        A side effect happens at least once: again when a record is processed again after a crash.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-PEEK-")
        function = callbacks.action(action)
        node = PeekNode(node_name, action=function, declared_at=declaration_site())
        return self._below(node, keeps_key=True, keeps_value=True)

    @overload
    def foreach(self, action: Callable[[V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None: ...
    def foreach(self, action: Callable[..., object], *, name: str | None = None) -> None:
        """Call the action for every record; the stream ends here."""
        node_name = self.builder.graph.names.named(name, "KSTREAM-FOREACH-")
        function = callbacks.action(action)
        self._below(PeekNode(node_name, action=function, declared_at=declaration_site()))

    def print(
        self,
        *,
        label: str | None = None,
        file: TextIO | None = None,
        mapper: Callable[..., str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write ``[label]: key, value`` per record to ``file`` (standard output if None).

        ``mapper`` makes the text after the label; the label is the stream's name if not given.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-PRINTER-")
        node = PrintNode(
            node_name,
            label=self.name if label is None else label,
            file=file,
            mapper=None if mapper is None else callbacks.mapper(mapper),
            declared_at=declaration_site(),
        )
        self._below(node)

    def merge(self, *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """One stream of the records of all; in no order between them.

        Serdes are kept only where all inputs have the same one.
        """
        merged: Any = self
        for position, other in enumerate(others):
            suffix = "" if position == len(others) - 1 else f"-{position}"
            merged = merged.merge_one(other, None if name is None else name + suffix)
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

    def merge_one(self, other: KStream[K, V], name: str | None) -> KStream[K, V]:
        self.check_same_builder(other, "merge")
        node_name = self.builder.graph.names.named(name, "KSTREAM-MERGE-")
        node = PassThroughNode(node_name, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, merge=True)
        self.builder.graph.add([self.logical, other.logical], logical)
        return self.derive(
            node_name,
            logical,
            key=self.key if self.key is other.key else None,
            value=self.value if self.value is other.value else None,
            source_names=self.source_names | other.source_names,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )

    def _below(
        self,
        node: ProcessorNode,
        *,
        key_changing: bool = False,
        value_changing: bool = False,
        keeps_key: bool = False,
        keeps_value: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> KStream[Any, Any]:
        """The stream below one new operator."""
        logical = ProcessorLogicalNode(
            node, key_changing=key_changing, value_changing=value_changing
        )
        self.builder.graph.add(self.logical, logical)
        inherited_key = self.key if keeps_key or not key_changing else None
        inherited_value = self.value if keeps_value else None
        return self.derive(
            node.name,
            logical,
            key=optional_serde(key, inherited_key, f"the key of {node.name!r}"),
            value=optional_serde(value, inherited_value, f"the value of {node.name!r}"),
            source_names=self.source_names,
            needs_repartition=self.needs_repartition or key_changing,
        )

    def derive(self, name: str, logical: Any, **fields: Any) -> KStream[Any, Any]:
        """A stream of the same builder."""
        raise NotImplementedError
