"""group_by and group_by_key of a stream: the way to every aggregation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V, optional_serde
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.naming import check_name
from logstate.topology.operators.select_key import SelectKeyNode
from logstate.topology.stream_flow import StreamFlow

K2 = TypeVar("K2")


class GroupOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

    @overload
    def group_by(
        self,
        mapper: Callable[[V], K2],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self,
        mapper: Callable[[K, V], K2],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[K2, V]: ...
    def group_by(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[Any, V]:
        """Group by a new key; always through a repartition topic named ``name``.

        Without ``name`` the topic is named after the aggregation's store. Null keys are dropped.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-KEY-SELECT-")
        function = callbacks.mapper(mapper)
        node = SelectKeyNode(node_name, mapper=function, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, key_changing=True)
        self.builder.graph.add(self.logical, logical)
        return KGroupedStream(
            self.builder,
            node_name,
            logical,
            self.source_names,
            optional_serde(key, None, f"the key of group {node_name!r}"),
            optional_serde(value, self.value, f"the value of group {node_name!r}"),
            needs_repartition=True,
            topic_name=name,
        )

    def group_by_key(
        self, *, name: str | None = None, key: Any = None, value: Any = None
    ) -> KGroupedStream[K, V]:
        """Group by the key the records have.

        Goes through a repartition topic (named ``name``, else after the aggregation's store) only
        if an operator above may have changed keys.
        """
        return KGroupedStream(
            self.builder,
            self.name,
            self.logical,
            self.source_names,
            optional_serde(key, self.key, f"the key of group {name or self.name!r}"),
            optional_serde(value, self.value, f"the value of group {name or self.name!r}"),
            needs_repartition=self.needs_repartition,
            topic_name=None if name is None else check_name(name, "a group"),
        )
