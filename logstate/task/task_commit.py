"""What one commit takes out of a task: outputs, writes, offsets and clocks of the same instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstate.changelog.state import Generation
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition


@dataclass(frozen=True)
class TaskCommit:
    """Everything of one task that one commit covers."""

    task_id: TaskId
    generation: Generation
    outputs: Sequence[ProducedFields]
    offsets: Mapping[TopicPartition, int]
    partition_times: Mapping[TopicPartition, int]

    @property
    def is_empty(self) -> bool:
        """True where committing would change nothing but offsets."""
        return not self.outputs and not any(self.generation.writes.values())
