"""map and its kin: operators of a stream that make new keys or values.

What changes keys marks the stream, so that the next grouping or join goes through a repartition
topic first; what changes values only does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V
from logstate.topology.operators.flat_map import FlatMapNode
from logstate.topology.operators.flat_map_values import FlatMapValuesNode
from logstate.topology.operators.map import MapNode
from logstate.topology.operators.map_values import MapValuesNode
from logstate.topology.operators.select_key import SelectKeyNode
from logstate.topology.stream_flow import StreamFlow

if TYPE_CHECKING:
    from logstate.topology.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")


class MappingOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

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
