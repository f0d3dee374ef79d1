"""group_by of a table: every change removes its old row from one group and adds the new to one.

The mapper returns ``(new key, new value)``; a null in it, or None in its place, leaves that side
out: the row is in no group. The old side goes first. If both sides have the same key, one record
contains both (KIP-904), so that the aggregate never shows the state in between. Keys are the same
if their bytes are: 1 and True are two groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from operator import eq
from typing import Any

from logstate.contracts.errors import LogstateError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import equal_as_bytes
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode

#: for a side without a row, or whose row is in no group
_NO_GROUP = (None, None)


class TableGroupByNode(ProcessorNode):
    """Table edge in, table edge out: ``forward(new key, new value, old value, ...)``."""

    has_table_edge = True

    mapper: Callable[[Any, Any], tuple[Any, Any] | None]
    #: serde and topic of the groups' keys, set by the aggregation
    keys: tuple[Serde[Any], str] | None = field(default=None, init=False)
    use_versioned_semantics: bool = field(default=False, init=False)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        mapper = self.mapper
        latest_only = self.use_versioned_semantics
        name = self.name
        is_same_key = self._key_comparison(task)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if key is None:
                raise LogstateError(
                    f"A change with a null key reached the table group {name!r}. Table rows must"
                    " have a key; an operator above it forwarded one without."
                )
            if latest_only and not is_latest:
                return
            mapped = None if new is None else mapper(key, new)
            new_key, new = _NO_GROUP if mapped is None else mapped
            mapped = None if old is None else mapper(key, old)
            old_key, old = _NO_GROUP if mapped is None else mapped
            has_new = new_key is not None and new is not None
            has_old = old_key is not None and old is not None
            if has_new and has_old and is_same_key(old_key, new_key):
                forward(new_key, new, old, timestamp, headers, is_latest)
                return
            if has_old:
                forward(old_key, None, old, timestamp, headers, is_latest)
            if has_new:
                forward(new_key, new, None, timestamp, headers, is_latest)

        return process

    def _key_comparison(self, task: TaskContext) -> Callable[[Any, Any], bool]:
        if self.keys is None:  # nothing aggregates the group
            return eq
        serde, topic = self.keys
        if equal_as_bytes(serde):
            return eq
        serialize = serde.serializer(task.topic_name(topic, is_internal=True), True)

        def is_same_key(old_key: Any, new_key: Any) -> bool:
            try:
                return serialize(old_key) == serialize(new_key)
            except Exception:  # noqa: BLE001  the sink reports it, and calls the handler
                return False

        return is_same_key
