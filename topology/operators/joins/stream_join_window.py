"""The node in front of each side of a stream-stream join: it keeps the side's records.

A record is forwarded first, so that the join looks for partners, and put into the side's window
store afterwards: in a self-join over two stores a record meets itself exactly once.

Records with a null key are not kept, since they match nothing. Null values ARE put: they are logged
and use up a sequence number, but no row comes of them, as in Kafka Streams.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class StreamJoinWindowNode(ProcessorNode):
    """Keeps one side's records for as long as the join may need them."""

    store: StoreSpec
    #: whether the other side gets the same objects: a stream that is joined with itself
    is_shared: bool = field(default=False, init=False)

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        store = task.store(self.store.name)
        put = store.put
        if not self.store.value.immutable:
            return self._compile_encoding(task, forward, store)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                # The store logs with these, and operators below may have changed them.
                task.timestamp = timestamp
                task.headers = headers
                put(key, value, timestamp)

        return process

    def _compile_encoding(self, task: TaskContext, forward: Forward, store: Any) -> Process:
        """Encode the value before the joiner gets it, because the joiner may change it."""
        encode, put_encoded = store.encoded, store.put_encoded
        copied = store.copied if self.is_shared else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                forward(key, value, timestamp, headers)
                return
            task.timestamp = timestamp
            task.headers = headers
            encoded = encode(value)
            if copied is not None and value is not None:
                value = copied(encoded.logged_value)
            forward(key, value, timestamp, headers)
            put_encoded(key, encoded, timestamp)

        return process
