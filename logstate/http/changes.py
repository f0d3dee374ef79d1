"""The committed changes of a store, as server-sent events from which a reader can continue.

They are read from the store's changelog: any instance has those of all partitions, without the
owners of the tasks. Order is that of each partition's commits. Several writes of a row between two
commits are one change, and so are older ones that were compacted.

The id of an event is the position of the reader after it, in every partition, its time in seconds,
and the topic's id: ``0:15,1:7@1767225600~VYjCa2OgT1iIuY2n8pGfdw``. Offsets in a log that was
deleted, or moved to other partitions, have no meaning in its successor. A compacted log keeps a
deletion only for some time (``delete.retention.ms``): a reader with an older id could silently miss
one, so it has to start over. A reader without new events receives its id every second, so its id
stays recent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.clients import Admin, Cluster
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, LogstateError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.serde import record_decoders, row_decoders
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic
from logstate.http.keys import document, plain

#: records of one poll, and how long it waits for the first
_BATCH = 1_000
_WAIT_S = 1.0
#: bytes that the client fetches ahead for a reader, whether it reads or not
QUEUE_BYTES: Final = 1024 * 1024
#: events that are sent together; the reader's connection buffers as much and waits
PART_BYTES: Final = 32_768
#: for the numbers in an id
_DIGITS_MAX = 19
#: the brokers' default of delete.retention.ms
_DELETIONS_KEPT_MS = 86_400_000


class NoChangesError(LogstateError):
    """The requested store has no such changes."""


class ChangesGoneError(LogstateError):
    """A reader cannot continue from its position."""


class ChangeFeed:
    """The changes of one store, for one reader; every call waits for brokers.

    ``after``: the id of the last event that was read; "" begins with the next commit,
    or with the oldest available change (``from_beginning``). ``log_of`` returns the changelog
    of a store, which may have the name of another store. Raises NoChangesError, ChangesGoneError,
    or LogstateError if the brokers are unavailable.
    """

    def __init__(
        self,
        spec: StoreSpec,
        application_id: str,
        cluster: Cluster,
        after: str,
        *,
        from_beginning: bool,
        clock: Clock,
        log_of: Callable[[Admin, str], str | None],
    ) -> None:
        self._clock = clock
        self._kind, self._name = kind_of(spec), spec.name
        self._layout = self._kind.key_layout  # a windowed serde decodes its windows itself
        if self._kind.is_internal:
            raise NoChangesError(f"store {spec.name!r} is of kind {spec.kind}: internal to a join")
        if not spec.is_logged and not spec.source_topic:
            raise NoChangesError(f"store {spec.name!r} has no changelog, and so no changes to read")
        self._size_ms = spec.window_size_ms
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        if spec.source_serdes is None:
            self._key, self._value = row_decoders(spec.key, spec.value, topic)
        else:
            self._key, self._value = record_decoders(*spec.source_serdes, topic)
        _, self._element = spec.bound_element(topic)
        admin = cluster.admin()
        try:
            if spec.source_topic is None:
                topic = log_of(admin, spec.name) or topic
            now_ms = clock.wall_clock_ms()
            self._topic_id, self._positions = _start_positions(
                admin, topic, after, now_ms, from_beginning=from_beginning
            )
        finally:
            admin.close()
        self._consumer = cluster.log_consumer(queue_bytes=QUEUE_BYTES)
        self._consumer.assign(self._positions)
        #: polled, and not sent yet
        self._pending: deque[tuple[TopicPartition, FetchedRecord]] = deque()

    def read(self) -> bytes:
        """Return events that arrive within a second, in parts; otherwise only the id."""
        if not self._pending:
            polled = self._consumer.poll(_BATCH, _WAIT_S)
            if polled.out_of_range:
                gone = ", ".join(f"{tp} at {at}" for tp, at in polled.out_of_range.items())
                raise ChangesGoneError(f"{gone}: the changes from there on were deleted")
            for partition, records in polled.records.items():
                self._pending.extend((partition, record) for record in records)
        part = bytearray()
        while self._pending and len(part) < PART_BYTES:
            part += self._event(*self._pending.popleft())
        return bytes(part) or f": nothing yet\nid: {self._id()}\n\n".encode()

    def close(self) -> None:
        """Close the consumer."""
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
            data = document({**about, **self._row(record)})
        except Exception as exc:  # noqa: BLE001  whatever a serde says of bytes of others
            reason = f"it cannot be decoded: {type(exc).__name__}: {text_of(exc)}"
            data = document({**about, "error": reason})
        return f"id: {self._id()}\ndata: ".encode() + data + b"\n\n"

    def _id(self) -> str:
        places = ",".join(f"{tp.partition}:{at}" for tp, at in self._positions.items())
        return f"{places}@{self._clock.wall_clock_ms() // 1_000}~{self._topic_id}"

    def _row(self, record: FetchedRecord) -> Mapping[str, Any]:
        key, value, headers = record.key(), record.value(), list(record.headers() or ())
        found: dict[str, Any] = {}
        window = None if key is None else self._layout.window_of(key, self._size_ms)
        if window is not None:
            found["start_ms"], found["end_ms"] = window
        found["key"] = (
            None if key is None else plain(self._key(self._layout.inner_key(key), headers))
        )
        if self._layout.has_element and key is not None:
            found[self._kind.element_name or "element"] = plain(
                self._element(self._layout.element_of(key))
            )
        if value is not None:
            value = plain(self._value(self._kind.value_of(key or b"", value, self._name), headers))
        found["value"] = value
        return found


def _start_positions(
    admin: Admin, topic: str, after: str, now_ms: int, *, from_beginning: bool
) -> tuple[str, dict[TopicPartition, int]]:
    """Return the topic's id, and where to begin."""
    found = admin.describe_topics([topic]).get(topic)
    if found is None:
        raise NoChangesError(f"the topic {topic!r} does not exist yet: the application has not run")
    partitions = [TopicPartition(topic, number) for number in range(found.partitions)]
    start = admin.start_offsets(partitions)
    if not after:
        return found.topic_id, start if from_beginning else admin.stable_offsets(partitions)
    end = admin.end_offsets(partitions)
    given = _parse_event_id(after)
    if given is not None and given.topic_id not in (None, found.topic_id):
        raise ChangesGoneError(
            f"{after!r:.200} is a position in a log that was deleted, or moved to other partitions,"
            " since, or in the log of another store or application. Read the store, and start over"
        )
    if given is None or given.positions.keys() != {tp.partition for tp in partitions}:
        raise NoChangesError(f"{after!r:.200} is not the id of a change of this store")
    wanted = {tp: given.positions[tp.partition] for tp in partitions}
    gone = [tp for tp, at in wanted.items() if not start[tp] <= at <= end[tp]]
    if gone:
        ranges = ", ".join(f"{tp} has {start[tp]} to {end[tp]}" for tp in gone)
        raise ChangesGoneError(
            f"{after!r:.200} is outside the remaining log ({ranges}): expired windows are"
            " deleted, or the application was reset. Read the store, and start over"
        )
    if given.at_ms is not None and wanted != end:
        _check_age(admin, topic, after, now_ms - given.at_ms)
    return found.topic_id, wanted


def _check_age(admin: Admin, topic: str, after: str, age_ms: int) -> None:
    """Raise ChangesGoneError if a deletion may have been compacted away meanwhile."""
    try:
        config = admin.topic_configs([topic]).get(topic, {})
    except BrokerError:  # it may not be read: assume the brokers' defaults
        config = {}
    if "compact" not in config.get("cleanup.policy", "compact"):
        return
    kept_ms = int(config.get("delete.retention.ms", _DELETIONS_KEPT_MS))
    if age_ms > kept_ms - kept_ms // 10:
        raise ChangesGoneError(
            f"{after!r:.200} is {age_ms // 1_000} s old, and {topic} keeps deletions for"
            f" {kept_ms // 1_000} s (delete.retention.ms): some may have been compacted away since."
            " Read the store, and start over"
        )


class _Place(NamedTuple):
    """The content of an id; ids of earlier versions have fewer parts."""

    positions: dict[int, int]
    at_ms: int | None
    topic_id: str | None


def _parse_event_id(text: str) -> _Place | None:
    """Parse an id, which names each partition once; return None for other texts."""
    offsets_and_time, _, topic_id = text.partition("~")
    places, separator, at_s = offsets_and_time.partition("@")
    parts = [part.split(":") for part in places.split(",")]
    numbers = [number for part in parts for number in part] + [at_s] * bool(separator)
    if not all(len(part) == 2 for part in parts) or not all(map(_is_number, numbers)):
        return None
    positions = {int(partition): int(offset) for partition, offset in parts}
    if len(positions) < len(parts):
        return None
    return _Place(positions, 1_000 * int(at_s) if separator else None, topic_id or None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
