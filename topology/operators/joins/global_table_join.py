"""Stream-global-table join: the row is looked up by a key computed from the record.

No co-partitioning and no repartition: every instance has the whole table. It is not synchronised in
time with the stream. A null computed key finds nothing: an inner join drops the record (counted),
a left join joins it with null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class GlobalTableJoinNode(ProcessorNode):
    """Inner or left join by a mapped key; the result keeps the stream's key."""

    store_name: str
    key_mapper: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool

    @property
    def operation(self) -> str:
        return "left_join" if self.is_left else "join"

    def global_store_names(self) -> tuple[str, ...]:
        return (self.store_name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        store = task.store(self.store_name)
        get = store.get
        key_mapper, joiner, is_left = self.key_mapper, self.joiner, self.is_left
        drop_null_value = task.dropper(self.name, DropReason.NULL_VALUE)
        drop_unmapped = task.dropper(self.name, DropReason.NULL_MAPPED_KEY)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                drop_null_value()
                return
            mapped = key_mapper(key, value)
            try:
                row = None if mapped is None else get(mapped)
            except Exception as error:  # noqa: BLE001
                raise self._mapper_error(mapped, store, error) from error.__cause__
            if row is not None:
                forward(key, joiner(key, value, row.value), timestamp, headers)
            elif is_left:
                forward(key, joiner(key, value, None), timestamp, headers)
            elif mapped is None:
                drop_unmapped()

        return process

    def _mapper_error(self, mapped: Any, store: Any, error: Exception) -> Exception:
        """Return an error of the same class that names the mapper, if the key is wrong."""
        try:
            store.codec.encode_key(mapped)
        except Exception:  # noqa: BLE001  serdes raise anything
            if type(error) in (TypeError, SerdeError):
                function = getattr(self.key_mapper, "by_value", self.key_mapper)
                return type(error)(
                    f"the key mapper {function_site(function)} returned an invalid key of the"
                    " global table:"
                    f" {text_of(error)}"
                )
        return error
