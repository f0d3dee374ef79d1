"""What one commit takes out of a task: outputs, writes, offsets and clocks of the same instant.

Of the clocks Kafka Streams commits two kinds too: the time of each input partition, from which it
takes the task's stream time, and per store how far results were emitted on window close. An
instance of it that takes a task over goes on from these, and so do we from one of it. Our other
clocks it does not have: operators begin anew then, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logstate.changelog.cut import OffsetMetadata
from logstate.changelog.state import StateChanges
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition

#: the time that :class:`logstate.topology.operators.aggregates.emit_on_close.CloseClock` keeps for
#: a store
_EMITTED = "emitted:"
STREAM_TIME = "task:stream_time"


@dataclass(frozen=True)
class TaskCommit:
    """Everything of one task that one commit covers."""

    task_id: TaskId
    changes: StateChanges
    outputs: Sequence[ProducedFields]
    offsets: Mapping[TopicPartition, int]
    partition_times: Mapping[TopicPartition, int]


def processor_times(clocks: Mapping[str, int], logged_as: Mapping[str, str]) -> dict[str, int]:
    """Kafka Streams' named times out of our clocks: store -> time.

    A store of another name than its changelog's (``logged_as``) has that one there.
    """
    stores = {
        name.removeprefix(_EMITTED): time
        for name, time in clocks.items()
        if time >= 0 and name.startswith(_EMITTED)
    }
    return {logged_as.get(store, store): time for store, time in stores.items()}


def clocks_of_streams(
    metadata: Iterable[OffsetMetadata], logged_as: Mapping[str, str]
) -> dict[str, int]:
    """Our clocks where an instance of Kafka Streams committed last; the largest of each counts."""
    clocks: dict[str, int] = {}
    ours = {there: here for here, there in logged_as.items()}
    for one in metadata:
        times = one.processor_times.items()
        named = {_EMITTED + ours.get(store, store): time for store, time in times}
        for name, time in {STREAM_TIME: one.partition_time_ms, **named}.items():
            clocks[name] = max(time, clocks.get(name, -1))
    return clocks
