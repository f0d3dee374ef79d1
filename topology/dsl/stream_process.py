"""process and process_values of a stream: the user's own operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.streams.process import Connections, ProcessNode
from logstate.topology.processor.processor import Processor

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")
#: names of stores added to the builder, or declarations of stores to add with the operator
Stores = str | StoreSpec | Iterable[str | StoreSpec]


class ProcessOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

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

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class Changes(Processor):
        ...     def process(self, record):
        ...         store = self.context.store("last")
        ...         if store.get(record.key) != record.value:
        ...             store.put(record.key, record.value)
        ...             self.context.forward(record)
        >>> builder = StreamsBuilder().add_store(key_value_store("last", str, int))
        >>> rooms = builder.stream("rooms", value=int)
        >>> rooms.process(Changes, stores="last", key=str, value=int, name="changes").to("changes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("rooms", [("hall", 20, 0), ("hall", 20, 1), ("hall", 21, 2)])
        ...     driver.read("changes", value=int)
        [('hall', 20), ('hall', 21)]

        Semantics:
            Null key: given to the processor.
            Null value: given to the processor.
            Late records: given to the processor; ``context.current_stream_time_ms()`` tells how
                late.
            Order: what is forwarded goes all the way down before ``forward`` returns.
            Repartition: none here; a grouping or join below goes through a repartition topic first,
                because keys may have changed. :meth:`process_values` avoids it.
            Store: those in ``stores``. Operators that share a store run in the same task.
            Timestamp: that of the forwarded record, which may be any from 0 on, and its headers.

        Args:
            supplier: makes one processor per task: the class, or a function without parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.
            key: serde of the results' keys, where a topic or store below needs it.
            value: serde of the results' values, likewise.
            name: the operator's name; generated if not given.

        Returns:
            The stream of what is forwarded.

        Raises:
            TopologyError: the supplier cannot be called without arguments; at ``build()``: a store
                does not exist.

        Source: Kafka Streams' ``KStream.process`` (KIP-820).
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
        """Run a processor of your own that keeps keys.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Stamp(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record._replace(value=f"{record.value}+{record.key}"))
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).process_values(Stamp, value=str).to("stamped")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home", timestamp=5)
        ...     driver.read("stamped", value=str)
        [('ada', 'home+ada')]

        Semantics:
            Null key: given to the processor.
            Null value: given to the processor.
            Late records: given to the processor.
            Order: what is forwarded goes all the way down before ``forward`` returns.
            Repartition: none, here or below: forwarding another key than the record's raises
                ValueError. Only a scheduled callback, which has no record, may forward any key, and
                has to stay within those of its partition.
            Store: those in ``stores``. Operators that share a store run in the same task.
            Timestamp: that of the forwarded record, which may be any from 0 on, and its headers.

        Args:
            supplier: makes one processor per task: the class, or a function without parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.
            value: serde of the results' values, where a topic or store below needs it.
            name: the operator's name; generated if not given.

        Returns:
            The stream of what is forwarded.

        Raises:
            TopologyError: the supplier cannot be called without arguments; at ``build()``: a store
                does not exist.

        Source: Kafka Streams' ``KStream.processValues`` (KIP-820).
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
            schedule_name=name or graph.names.of_supplier(supplier),
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
