"""The data that one commit takes from a task: outputs, writes, offsets and clocks.

Kafka Streams commits two kinds of these clocks too: the time of each input partition, from which it
derives the task's stream time, and per store how far results were emitted on window close. An
instance of Kafka Streams that takes over a task continues from these, and so does this library in
the other direction. It does not have the other clocks: operators then start without them, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logstate.changelog.cut import OffsetMetadata
from logstate.changelog.rows.writes import StateChanges
from logstate.contracts.processing import STREAM_TIME
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition

#: prefix of the time that :class:`logstate.topology.operators.aggregates.emit_on_close.CloseClock`
#: keeps for a store
_EMITTED = "emitted:"


@dataclass(frozen=True)
class TaskCommit:
    """All data of one task that one commit covers."""

    task_id: TaskId
    changes: StateChanges
    outputs: Sequence[ProducedFields]
    offsets: Mapping[TopicPartition, int]
    partition_times: Mapping[TopicPartition, int]


def processor_times(clocks: Mapping[str, int], logged_as: Mapping[str, str]) -> dict[str, int]:
    """Extract Kafka Streams' named times from our clocks: store -> time.

    A store whose changelog has another name (``logged_as``) has that name there.
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
    """Return our clocks after a commit by Kafka Streams; the largest of each applies."""
    clocks: dict[str, int] = {}
    ours = {there: here for here, there in logged_as.items()}
    for one in metadata:
        times = one.processor_times.items()
        named = {_EMITTED + ours.get(store, store): time for store, time in times}
        for name, time in {STREAM_TIME: one.partition_time_ms, **named}.items():
            clocks[name] = max(time, clocks.get(name, -1))
    return clocks
