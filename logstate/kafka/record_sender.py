"""Passing many records to a producer in one call of the extension module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from confluent_kafka import Producer

from logstate.contracts.records import ProducedFields
from logstate.kafka.extension import extension
from logstate.kafka.librdkafka import librdkafka

#: Passes records[start:end] without delivery reports; returns the index of the first record that
#: the client's own call has to pass, which reports why: the client's queue is full, the record has
#: headers, ...
RecordSender: TypeAlias = Callable[[Sequence[ProducedFields], int, int], int]


def record_sender(producer: Producer, count_of: Callable[[str], int]) -> RecordSender | None:
    """Return the sender of a producer; None if the extension cannot be used.

    ``count_of`` returns the partition count of a topic, or raises. A failed delivery is not
    reported, so this is only for producers whose transaction fails then.
    """
    module, library = extension(), librdkafka()
    if module is None or library is None:
        return None
    handle = library.handle_of(producer)
    if handle is None:
        return None

    def send(records: Sequence[ProducedFields], start: int, end: int) -> int:
        return module.produce(producer, handle, records, start, end, count_of)  # type: ignore[no-any-return]

    return send
