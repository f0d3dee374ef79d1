"""The committed changes of a store, as server-sent events that a reader can go on from.

They are read from the store's changelog: any instance has those of all partitions, and whoever owns
the tasks does not notice. Order is that of each partition's commits. A row that is written several
times between two commits is one change, and so is what compaction has left of older ones.

The id of an event is the position of the reader after it, in every partition: ``0:15,1:7``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from logstate.contracts.changelog_keys import inner_key, layout_of, window_of
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.seams import Cluster
from logstate.contracts.serde import record_decoders, row_decoders
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic
from logstate.http.keys import plain

#: records of one look, and how long it waits for the first
_BATCH = 1_000
_WAIT_S = 1.0


class NoChangesError(LogstateError):
    """What was asked for are no changes of this store."""


class ChangesGoneError(LogstateError):
    """A reader cannot go on from where it was."""


class ChangeReader:
    """The changes of one store, for one reader; every call waits for brokers.

    ``after``: the id of the last event that was read; "" begins with what is committed from now on,
    or with the oldest change that is there (``from_beginning``). Raises NoChangesError,
    ChangesGoneError, or LogstateError where the brokers cannot be asked.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        cluster: Cluster,
        after: str,
        *,
        from_beginning: bool,
    ) -> None:
        self._layout = layout_of(spec.kind, "")  # a windowed serde reads its windows itself
        if self._layout == "opaque":
            raise NoChangesError(f"store {spec.name!r} is of kind {spec.kind}: internal to a join")
        if not spec.is_logged and not spec.source_topic:
            raise NoChangesError(f"store {spec.name!r} has no changelog, and so no changes to read")
        self._size_ms = spec.window_size_ms
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        if spec.source_serdes is None:
            self._key, self._value = row_decoders(spec.key, spec.value, topic)
        else:
            self._key, self._value = record_decoders(*spec.source_serdes, topic)
        self._positions = _begin(cluster, topic, after, from_beginning=from_beginning)
        self._consumer = cluster.log_consumer()
        self._consumer.assign(self._positions)

    def read(self) -> bytes:
        """The events that are there within a second; a comment where there are none."""
        polled = self._consumer.poll(_BATCH, _WAIT_S)
        if polled.out_of_range:
            gone = ", ".join(f"{tp} at {at}" for tp, at in polled.out_of_range.items())
            raise ChangesGoneError(f"{gone}: the changes from there on were deleted")
        events = [
            self._event(partition, record)
            for partition, records in polled.records.items()
            for record in records
        ]
        return b"".join(events) or b": nothing yet\n\n"

    def close(self) -> None:
        """Let go of the consumer."""
        self._consumer.close()

    def _event(self, partition: TopicPartition, record: FetchedRecord) -> bytes:
        offset = record.offset() or 0
        self._positions[partition] = offset + 1
        about: dict[str, Any] = {
            "partition": partition.partition,
            "offset": offset,
            "timestamp": record.timestamp()[1],
        }
        try:
            about.update(self._row(record))
        except Exception as exc:  # noqa: BLE001  whatever a serde says of bytes of others
            about["error"] = f"it cannot be decoded: {type(exc).__name__}: {exc}"
        place = ",".join(f"{tp.partition}:{at}" for tp, at in self._positions.items())
        return f"id: {place}\ndata: ".encode() + msgspec.json.encode(about) + b"\n\n"

    def _row(self, record: FetchedRecord) -> Mapping[str, Any]:
        key, value, headers = record.key(), record.value(), list(record.headers() or ())
        found: dict[str, Any] = {}
        window = None if key is None else window_of(self._layout, key, self._size_ms)
        if window is not None:
            found["start_ms"], found["end_ms"] = window
        found["key"] = (
            None if key is None else plain(self._key(inner_key(self._layout, key), headers))
        )
        found["value"] = None if value is None else plain(self._value(value, headers))
        return found


def _begin(
    cluster: Cluster, topic: str, after: str, *, from_beginning: bool
) -> dict[TopicPartition, int]:
    admin = cluster.admin()
    try:
        found = admin.describe_topics([topic]).get(topic)
        if found is None:
            raise NoChangesError(f"there is no topic {topic!r} yet: the application has not run")
        partitions = [TopicPartition(topic, number) for number in range(found.partitions)]
        start = admin.start_offsets(partitions)
        if not after:
            return start if from_beginning else admin.stable_offsets(partitions)
        end = admin.end_offsets(partitions)
    finally:
        admin.close()
    given = _positions(after)
    if given.keys() != {tp.partition for tp in partitions}:
        raise NoChangesError(f"{after!r:.200} is not the id of a change of this store")
    wanted = {tp: given[tp.partition] for tp in partitions}
    gone = [tp for tp, at in wanted.items() if not start[tp] <= at <= end[tp]]
    if gone:
        ranges = ", ".join(f"{tp} has {start[tp]} to {end[tp]}" for tp in gone)
        raise ChangesGoneError(
            f"{after!r:.200} lies outside of what is left ({ranges}): expired windows are deleted,"
            " or the application was reset. Read the store, and begin anew"
        )
    return wanted


def _positions(text: str) -> dict[int, int]:
    """Of an id; empty where it is none."""
    parts = [part.split(":") for part in text.split(",")]
    if not all(len(part) == 2 and part[0].isdecimal() and part[1].isdecimal() for part in parts):
        return {}
    return {int(partition): int(offset) for partition, offset in parts}
