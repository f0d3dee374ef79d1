"""peek, foreach and print: operators of a stream that are there for what they do besides.

Side effects happen at least once, whatever the guarantee: a record that is processed again after a
crash or an aborted transaction has its side effect again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.peek import PeekNode
from logstate.topology.operators.streams.print import PrintNode

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream


class SideEffectOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def peek(
        self, action: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def peek(self, action: Callable[..., object], *, name: str | None = None) -> KStream[K, V]:
        """Call the action for every record, then pass the record on.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> seen = []
        >>> builder.stream("clicks", value=str).peek(seen.append).to("same")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ...     seen, driver.read("same", value=str)
        (['home'], [('ada', 'home')])

        Semantics:
            Null key: given to the action as None.
            Null value: given to the action as None.
            Late records: like all others.
            Order: kept; the action is over before the record goes on.
            Repartition: none, here or below.
            Store: none.
            Timestamp: the record's, and its headers.
            Quirk: the action happens at least once, under exactly-once too: a record that is
                processed again after a crash has its side effect again, because nothing can take
                one back.

        Args:
            action: ``action(value)`` or ``action(key, value)``; its result is not used. Do not
                change the value in place: operators beside this one see the same object.
            name: the operator's name; generated if not given.

        Returns:
            The same stream, one step further down.

        Raises:
            TopologyError: the action has another shape.

        Source: Kafka Streams' ``KStream.peek``.
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
        """Call the action for every record; the stream ends here.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).foreach(lambda user, page: print(user, page))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ada home

        Semantics:
            Null key: given to the action as None.
            Null value: given to the action as None.
            Late records: like all others.
            Order: that of the stream.
            Repartition: none.
            Store: none.
            Timestamp: nothing is forwarded.
            Quirk: the action happens at least once, under exactly-once too, as with :meth:`peek`.
                What has to happen exactly once must be a record on a topic.

        Args:
            action: ``action(value)`` or ``action(key, value)``; its result is not used.
            name: the operator's name; generated if not given.

        Returns:
            Nothing: there is no stream below.

        Raises:
            TopologyError: the action has another shape.

        Source: Kafka Streams' ``KStream.foreach``.
        """
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
        """Write a line per record, ``[label]: key, value``; the stream ends here.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).print(label="clicks")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        [clicks]: ada, home

        Semantics:
            Null key: printed as None.
            Null value: printed as None.
            Late records: like all others.
            Order: that of the stream.
            Repartition: none.
            Store: none.
            Timestamp: nothing is forwarded.
            Quirk: lines are written at least once, as with :meth:`peek`; they are not flushed.

        Args:
            label: text in the brackets; the stream's name if not given.
            file: an open text file; standard output of the moment if not given.
            mapper: ``mapper(value)`` or ``mapper(key, value)`` makes the text after the label.
            name: the operator's name; generated if not given.

        Returns:
            Nothing: there is no stream below. To print in between use :meth:`peek`.

        Raises:
            TopologyError: the mapper has another shape.

        Source: Kafka Streams' ``KStream.print(Printed)`` (KIP-160).
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
