"""The little of a task context that a store needs, where there is no task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers, TaskId
from logstate.contracts.topic_names import topic_name

_NO_CLOCKS: Mapping[str, int] = MappingProxyType({})


class StoreContext:
    """Of queries, whose ``clocks`` are those of a commit, and of processors under test."""

    def __init__(
        self, application_id: str, task_id: TaskId, clocks: Mapping[str, int] = _NO_CLOCKS
    ) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.timestamp = 0
        self.headers: Headers = None
        self.topic: str | None = None
        self.partition = task_id.partition
        self.offset = -1
        self._clocks = clocks
        self._cells: dict[str, TimeCell] = {}

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return topic_name(self.application_id, name, is_internal=is_internal)

    def time_cell(self, name: str) -> TimeCell:
        return self._cells.setdefault(name, TimeCell(self._clocks.get(name, -1)))

    def drop(self, reason: str) -> None:
        """Stores count what they drop; nobody asks here."""
