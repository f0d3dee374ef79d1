"""Processor: the low level, operators that users write.

Everything runs in the task's thread. What a processor keeps in attributes is gone after a crash,
what it puts into stores is not.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from logstate.contracts.records import Record
from logstate.topology.processor.processor_context import ProcessorContext

K = TypeVar("K")
V = TypeVar("V")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class Processor(Generic[K, V, KOut, VOut]):
    """Base class of processors of your own; override what you need.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
    >>> class Double(Processor):
    ...     def process(self, record):
    ...         self.context.forward(record._replace(value=record.value * 2))
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=int).process(Double, key=str, value=int).to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("in", "ada", 21)
    ...     driver.read("out", value=int)
    [('ada', 42)]

    One exists per task, that is per partition, and is used by the task's thread only, so it may
    have plain attributes. They are a cache: only data in a store survives a crash, a move or an
    aborted transaction. For types write ``Processor[KeyIn, ValueIn, KeyOut, ValueOut]``.

    Source: Kafka Streams' ``Processor`` (KIP-478, KIP-820).
    """

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called once per task, when its stores are ready. The default keeps the context.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class Count(Processor):
        ...     def init(self, context):
        ...         self.counts = context.store("counts")
        ...     def process(self, record):
        ...         self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
        >>> builder = StreamsBuilder()
        >>> counts = key_value_store("counts", str, int)
        >>> _ = builder.stream("in", value=str).process(Count, stores=counts)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", "x")
        ...     driver.store("counts").get("ada")
        1

        Semantics: the place to keep stores and to schedule callbacks. Also called after a move or
        an abort, on a new processor. It runs without a current record.

        Args:
            context: what the processor may ask of its task.

        Source: Kafka Streams' ``Processor.init``.
        """
        self.context = context

    def process(self, record: Record[K, V]) -> None:
        """Called for every record; has to be overridden.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Twice(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...         self.context.forward(record._replace(timestamp=record.timestamp + 1))
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str).process(Twice, key=str, value=str).to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", "x", timestamp=5)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'x', 5), ('ada', 'x', 6)]

        Semantics: null keys and values come as None, late records as they come. What it raises
        stops the application, with the processor's name, file and line in the error, and nothing
        from this record on is committed.

        Args:
            record: key, value, timestamp in ms, and headers. Immutable: derive with ``_replace``.

        Raises:
            NotImplementedError: it is not overridden.

        Source: Kafka Streams' ``Processor.process``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process(record)")

    def close(self) -> None:
        """Called when the task is closed: at a move, an abort and the end.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Polite(Processor):
        ...     def process(self, record): ...
        ...     def close(self):
        ...         print("bye")
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Polite)
        >>> TopologyTestDriver(builder.build()).close()
        bye

        Semantics: release what the processor opened. Records forwarded or written here would be in
        no commit, and raise an error. After a crash it is not called.

        Source: Kafka Streams' ``Processor.close``.
        """
