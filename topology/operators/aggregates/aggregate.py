"""count, reduce and aggregate of a grouped stream, without windows.

One node for all three. ``reduce`` starts with the first value instead of an initializer's. The
result's timestamp is the largest of all records that went in; a null result deletes the row, and
the next record starts anew. Null keys and null values are dropped and counted.

Towards old values the initializer's value counts as the row before the first one, as in Kafka
Streams: a downstream subtractor sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.generated_code import make_function
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_name
from logstate.topology.declaring.windows import Emit
from logstate.topology.graph.nodes import Process
from logstate.topology.operators.aggregates.emit_on_commit import hold_until_commit
from logstate.topology.operators.tables.rows import bind_rows
from logstate.topology.operators.tables.table_nodes import MaterializedNode
from logstate.topology.operators.tables.to_stream import stream_below

#: the common case in as few steps as there are: every record goes through here
_PLAIN = """\
def bind(read, put, initializer, aggregator, forward, task, drop):
    def process(key, value, timestamp, headers):
        if key is None or value is None:
            drop("null_key_or_value")
            return
        row = read(key)
        if row is None:
            old = initializer()
            newest = timestamp
        else:
            old, newest, _ = row
            if timestamp > newest:
                newest = timestamp
        new = aggregator(old, value)
        if new is None:
            # A delete is logged with the time of the record that caused it.
            task.timestamp = timestamp
            task.headers = headers
            put(key, None)
        else:
            put(key, (new, newest, None))
        forward({change})
    return process
"""


class AggregateNode(MaterializedNode):
    """``initializer`` None means reduce: the first value is the aggregate."""

    initializer: Callable[[], Any] | None
    aggregator: Callable[[Any, Any, Any], Any]
    emit: Emit = "update"

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        if self.emit == "commit":
            forward = hold_until_commit(task, forward, identity=key_identity(task, self.store))
        by_value = getattr(self.aggregator, "by_value", None)
        is_plain = self.store.kind != "versioned" and not self._copies_old()
        if by_value is not None and self.initializer is not None and is_plain:
            return self._compile_plain(task, forward, self.initializer, by_value)
        return self._compile_any(task, forward)

    def _copies_old(self) -> bool:
        # An aggregator may change what it is given; whoever gets the old value needs his own copy.
        return self.sends_old_values and not self.store.value.immutable

    def _compile_plain(
        self,
        task: TaskContext,
        forward: Callable[..., None],
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any], Any],
    ) -> Process:
        """Without a key for the aggregator, copies of old values, and versions."""
        read, _ = bind_rows(task, self.store)
        put = task.store(self.store.name).put
        below = stream_below(forward)
        if below is not None:
            change = "key, new, newest, headers"
        elif self.sends_old_values:
            change = "key, new, old, newest, headers, True"
        else:
            change = "key, new, None, newest, headers, True"
        bind = make_function("bind", _PLAIN.format(change=change), "aggregate")
        process: Process = bind(
            read, put, initializer, aggregator, forward if below is None else below, task, task.drop
        )
        return process

    def _compile_any(self, task: TaskContext, forward: Callable[..., None]) -> Process:
        read, write = bind_rows(task, self.store)
        drop = task.drop
        initializer, aggregator = self.initializer, self.aggregator
        with_old, copies_old = self.sends_old_values, self._copies_old()

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key_or_value")
                return
            row = read(key)
            newest = timestamp
            if row is not None:
                old = row[0]
                if row[1] > timestamp:
                    newest = row[1]
            else:
                old = initializer() if initializer is not None else None
            if old is None and initializer is None:
                new = value
            else:
                new = aggregator(key, value, old)
            if copies_old:
                # The store still holds the row as it was: nothing has been written yet.
                if row is not None:
                    row = read(key)
                    old = None if row is None else row[0]
                else:
                    old = initializer() if initializer is not None else None
            is_latest = write(key, new, newest, timestamp, headers)
            if is_latest is not None:
                forward(key, new, old if with_old else None, newest, headers, is_latest)

        return process


def key_identity(task: TaskContext, store: StoreSpec) -> Callable[[Any], bytes] | None:
    """What makes the store's keys comparable: None if they are hashable themselves."""
    if store.key.immutable:
        return None
    topic = task.topic_name(changelog_name(store.name), is_internal=True)
    return store.key.serializer(topic, True)
