"""The clocks that Kafka Streams commits too, under its names and under ours.

It keeps two kinds: the time of each input partition, from which it takes the task's stream time,
and per store how far results were emitted on window close. An instance of it that takes a task over
goes on from these, and so do we from one of it. Our other clocks it does not have: operators begin
anew then, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.changelog.cut import OffsetMetadata

#: the time that :class:`logstate.topology.operators.aggregates.emit_on_close.CloseClock` keeps for
#: a store
_EMITTED = "emitted:"
STREAM_TIME = "task:stream_time"


def streams_times(clocks: Mapping[str, int]) -> dict[str, int]:
    """Kafka Streams' named times out of our clocks: store -> time."""
    return {
        name.removeprefix(_EMITTED): time
        for name, time in clocks.items()
        if time >= 0 and name.startswith(_EMITTED)
    }


def clocks_of_streams(metadata: Iterable[OffsetMetadata]) -> dict[str, int]:
    """Our clocks where an instance of Kafka Streams committed last; the largest of each counts."""
    clocks: dict[str, int] = {}
    for one in metadata:
        named = {_EMITTED + store: time for store, time in one.processor_times.items()}
        for name, time in {STREAM_TIME: one.partition_time_ms, **named}.items():
            clocks[name] = max(time, clocks.get(name, -1))
    return clocks
