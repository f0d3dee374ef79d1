"""ValueTransformer: map_values of a table with stores and a context."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from logstate.topology.processor.processor_context import ProcessorContext

K = TypeVar("K")
V = TypeVar("V")
VOut = TypeVar("VOut")


class ValueTransformer(Generic[K, V, VOut]):
    """Base class for ``KTable.transform_values``: map_values with stores and a context.

    >>> from logstate import ValueTransformer
    >>> class Shout(ValueTransformer):
    ...     def transform(self, key, value):
    ...         return value and value.upper()
    >>> Shout().transform("ada", "hello")
    'HELLO'

    One exists per task. For types write ``ValueTransformer[Key, ValueIn, ValueOut]``.

    Source: Kafka Streams' ``ValueTransformerWithKey`` (KIP-292).
    """

    context: ProcessorContext[Any, Any]

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Called once per task, when its stores are ready. The default keeps the context.

        >>> from logstate import StreamsBuilder, TopologyTestDriver, ValueTransformer
        >>> from logstate import key_value_store
        >>> class Rename(ValueTransformer):
        ...     def init(self, context):
        ...         self.names = context.store("names")
        ...     def transform(self, key, value):
        ...         return self.names.get(value) or value
        >>> builder = StreamsBuilder()
        >>> names = key_value_store("names", str, str)
        >>> users = builder.table("users", value=str)
        >>> users.transform_values(Rename, stores=names, value=str).to_stream().to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.store("names").put("Oslo", "Christiania")
        ...     driver.pipe("users", "ada", "Oslo")
        ...     driver.read("out", value=str)
        [('ada', 'Christiania')]

        Semantics: the context cannot forward here: the result is what ``transform`` returns.

        Args:
            context: what the transformer may ask of its task.

        Source: Kafka Streams' ``ValueTransformerWithKey.init`` (KIP-292).
        """
        self.context = context

    def transform(self, key: K, value: V | None) -> VOut | None:
        """The new value of a row; has to be overridden.

        >>> from logstate import ValueTransformer
        >>> class Length(ValueTransformer):
        ...     def transform(self, key, value):
        ...         return None if value is None else len(value)
        >>> Length().transform("ada", None)

        Semantics: called with None for tombstones, and again for old values and whenever a row of
        an unmaterialised result is read: it must be a function of the row and of its stores.

        Args:
            key: the row's key.
            value: its value, None if it was deleted.

        Returns:
            The new value; None deletes the row of the result.

        Raises:
            NotImplementedError: it is not overridden.

        Source: Kafka Streams' ``ValueTransformerWithKey.transform`` (KIP-292).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define transform(key, value)")

    def close(self) -> None:
        """Called when the task is closed: at a move, an abort and the end.

        >>> from logstate import ValueTransformer
        >>> ValueTransformer().close()

        Semantics: release what the transformer opened. After a crash it is not called.

        Source: Kafka Streams' ``ValueTransformerWithKey.close`` (KIP-292).
        """
