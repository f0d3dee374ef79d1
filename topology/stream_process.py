"""process and process_values of a stream: the user's own operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V, optional_serde
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.naming import check_name
from logstate.topology.operators.process import Connections, ProcessNode
from logstate.topology.processor import Processor
from logstate.topology.stream_flow import StreamFlow

if TYPE_CHECKING:
    from logstate.topology.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")
#: names of stores added to the builder, or declarations of stores to add with the operator
Stores = str | StoreSpec | Iterable[str | StoreSpec]


class ProcessOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

    def process(
        self,
        supplier: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Stores = (),
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Run a processor of your own; what it forwards is the result.

        ``supplier`` makes one processor per task: give the class. ``stores`` are names of stores
        added to the builder, or declarations of stores to add; operators that share a store run in
        the same task. It may change keys, so groupings and joins below go through a repartition
        topic.
        """
        return self._process(supplier, stores, name, key=key, value=value, keeps_key=False)

    def process_values(
        self,
        supplier: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Stores = (),
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Like :meth:`process` for processors that keep keys: nothing is repartitioned below.

        Forwarding another key raises ValueError.
        """
        return self._process(supplier, stores, name, key=None, value=value, keeps_key=True)

    def _process(
        self,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Stores,
        name: str | None,
        *,
        key: Any,
        value: Any,
        keeps_key: bool,
    ) -> KStream[Any, Any]:
        prefix = "KSTREAM-PROCESSVALUES-" if keeps_key else "KSTREAM-PROCESSOR-"
        # The one kind of operator that burns no number when it is named.
        graph = self.builder.graph
        node_name = graph.new_name(prefix) if name is None else check_name(name, "an operator")
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=Connections(stores),
            keeps_key=keeps_key,
            declared_at=declaration_site(),
        )
        logical = ProcessorLogicalNode(node)
        graph.add(self.logical, logical)
        inherited = self.key if keeps_key else None
        return self._derive(
            node_name,
            logical,
            key=optional_serde(key, inherited, f"the key of {node_name!r}"),
            value=optional_serde(value, None, f"the value of {node_name!r}"),
            source_names=self.source_names,
            needs_repartition=self.needs_repartition or not keeps_key,
        )
