"""peek, foreach and print: operators of a stream that are there for what they do besides.

Side effects happen at least once, whatever the guarantee: a record that is processed again after a
crash or an aborted transaction has its side effect again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO, overload

from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V
from logstate.topology.operators.peek import PeekNode
from logstate.topology.operators.print import PrintNode
from logstate.topology.stream_flow import StreamFlow

if TYPE_CHECKING:
    from logstate.topology.stream import KStream


class SideEffectOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.stream.KStream`."""

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
