"""Sinks: encode a record and hand it to the task.

The partition is left open (the producer hashes the key with murmur2) unless the user gave a
partitioner or the key is windowed: a windowed key is placed by its inner key alone, so that results
stay in the partition of their input. Repartition topics differ: Kafka Streams hashes the whole key
there, so its state below them is partitioned by the whole key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.changelog_keys import SESSION_TAIL_BYTES, START_BYTES
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import RegistryError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.processing import TaskContext
from logstate.contracts.record_parts import (
    headers_of,
    no_such_partition,
    own_copy,
    partitions_of,
    topic_of,
)
from logstate.contracts.records import Headers, RecordContext
from logstate.contracts.serde import Encoders
from logstate.contracts.topic_names import is_internal
from logstate.serdes.windowed_serdes import SessionWindowedSerde, WindowedSerde
from logstate.topology.graph.nodes import Partitioner, Process, SinkNode, TopicRef

#: partitions of a record: None = by the key; a tuple may have any number, none included
Placement = Callable[[str, Any, Any, "bytes | None"], "tuple[int | None, ...]"]
_OPEN: tuple[None] = (None,)


def compile_sink(sink: SinkNode, task: TaskContext) -> Process:
    """The closure of a sink."""
    write = _write_function(sink, task)
    if not sink.takes_table_edge:
        return write

    def write_change(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        write(key, (new, old), timestamp, headers)

    return write_change


def _write_function(sink: SinkNode, task: TaskContext) -> Callable[[Any, Any, int, Headers], None]:
    if not isinstance(sink.topic, TopicRef):
        return _dynamic_writer(sink, task)
    topic = task.topic_name(sink.topic.name, is_internal=sink.topic.is_internal)
    placement = _placement(sink, task)
    encoders = sink.header_encoders(topic)
    if encoders is not None:
        return _header_writer(sink, task, topic, encoders, placement)
    if placement is not None:
        return _placed_writer(sink, task, topic, placement)
    serialize_key = sink.key.serializer(topic, True)
    serialize_value = sink.serialize_value(topic)
    send, name = task.send, sink.name

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        part = "key"
        try:
            key_bytes = None if key is None else serialize_key(key)
            part = "value"
            value_bytes = None if value is None else serialize_value(value)
        except Exception as exc:  # noqa: BLE001  serdes raise anything
            _not_encoded(task, part, name, topic, exc)
            return
        send((topic, None, key_bytes, value_bytes, timestamp, headers))

    return write


def _placed_writer(
    sink: SinkNode, task: TaskContext, topic: str, placement: Placement
) -> Callable[[Any, Any, int, Headers], None]:
    serialize_key = sink.key.serializer(topic, True)
    serialize_value = sink.serialize_value(topic)
    send = task.send
    name = sink.name
    drop = task.dropper(name, DropReason.NO_PARTITION)

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            key_bytes = None if key is None else serialize_key(key)
        except Exception as exc:  # noqa: BLE001  serdes raise anything
            _not_encoded(task, "key", name, topic, exc)
            return
        partitions = placement(topic, key, value, key_bytes)
        if not partitions:
            drop()
            return
        try:
            value_bytes = None if value is None else serialize_value(value)
        except Exception as exc:  # noqa: BLE001
            _not_encoded(task, "value", name, topic, exc)
            return
        for partition in partitions:
            send((topic, partition, key_bytes, value_bytes, timestamp, headers))

    return write


def _header_writer(
    sink: SinkNode, task: TaskContext, topic: str, encoders: Encoders, placement: Placement | None
) -> Callable[[Any, Any, int, Headers], None]:
    """Return a writer for serdes that use headers: they get a copy, which becomes the record's."""
    encode_key, encode_value = encoders
    send, name = task.send, sink.name
    drop = task.dropper(name, DropReason.NO_PARTITION)
    given_by = f"a serde of sink {name!r} left"

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        part = "key"
        written = [] if headers is None else list(headers)
        try:
            key_bytes = None if key is None else encode_key(key, written)
            part = "value"
            value_bytes = None if value is None else encode_value(value, written)
            headers_of(written, given_by)
        except Exception as exc:  # noqa: BLE001  serdes raise anything
            _not_encoded(task, part, name, topic, exc)
            return
        partitions = _OPEN if placement is None else placement(topic, key, value, key_bytes)
        if not partitions:
            drop()
        for partition in partitions:
            send((topic, partition, key_bytes, value_bytes, timestamp, written or None))

    return write


def _dynamic_writer(sink: SinkNode, task: TaskContext) -> Callable[[Any, Any, int, Headers], None]:
    choose = _partition_function(sink, task)
    chosen = f"the topic chooser of sink {sink.name!r} returned"
    prefix = sink.topic_prefix
    together = f"the topic chooser of sink {sink.name!r} and the prefix {prefix!r} make"
    writers: dict[str, Callable[[Any, Any, int, Headers], None]] = {}

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        topic = choose(key, value, timestamp, headers)
        writer = writers.get(topic) if isinstance(topic, str) else None
        if writer is None:
            unprefixed = topic_of(topic, chosen)
            name = topic_of(prefix + unprefixed, together)
            if is_internal(task.application_id, name):
                raise ValueError(
                    f"{chosen} the topic {name!r}, which has the name of an internal topic of this"
                    " application: it would read other records in it as its own state. Choose"
                    " another topic name"
                )
            fixed = SinkNode(
                sink.name, TopicRef(name), sink.key, sink.value, partitioner=sink.partitioner
            )
            writer = writers[unprefixed] = _write_function(fixed, task)
        writer(key, value, timestamp, headers)

    return write


def _partition_function(
    sink: SinkNode, task: TaskContext
) -> Callable[[Any, Any, int, Headers], object]:
    choose: Callable[..., object] = sink.topic  # type: ignore[assignment]  # not a TopicRef
    if not sink.takes_context:
        return lambda key, value, timestamp, headers: choose(key, value)

    def in_context(key: Any, value: Any, timestamp: int, headers: Headers) -> object:
        topic = task.topic
        partition = -1 if topic is None else task.partition
        context = RecordContext(topic, partition, task.offset, timestamp, own_copy(headers))
        return choose(key, value, context)

    return in_context


def _not_encoded(task: TaskContext, part: str, sink: str, topic: str, error: Exception) -> None:
    """Report the error; returns if the result is to be left out."""
    if isinstance(error, RegistryError):
        raise error  # an unreachable registry is not an error of the record
    task.not_encoded(part, sink, topic, error)


def _placement(sink: SinkNode, task: TaskContext) -> Placement | None:
    if sink.partitioner is not None:
        given_by = f"the partitioner of sink {sink.name!r} returned"
        return _user_placement(sink.partitioner, task, given_by)
    if sink.places_whole_keys:
        return None
    if isinstance(sink.key, WindowedSerde):
        return _inner_key_placement(task, suffix_bytes=START_BYTES)
    if isinstance(sink.key, SessionWindowedSerde):
        return _inner_key_placement(task, suffix_bytes=SESSION_TAIL_BYTES)
    return None


def _inner_key_placement(task: TaskContext, *, suffix_bytes: int) -> Placement:
    def place(topic: str, key: Any, value: Any, key_bytes: bytes | None) -> tuple[int | None, ...]:
        if key_bytes is None:
            return _OPEN
        return (partition_of(key_bytes[:-suffix_bytes], task.partition_count(topic)),)

    return place


def _user_placement(partitioner: Partitioner, task: TaskContext, given_by: str) -> Placement:
    def place(topic: str, key: Any, value: Any, key_bytes: bytes | None) -> tuple[int | None, ...]:
        count = task.partition_count(topic)
        chosen = partitioner(topic, key, value, count)
        if type(chosen) is int and 0 <= chosen < count:
            return (chosen,)
        partitions = partitions_of(chosen, given_by)
        for partition in partitions:
            # The test driver knows only the partition that it has.
            if partition is not None and partition >= count and task.knows_partition_count(topic):
                found = f"topic {topic!r} has {count}, from 0 on"
                raise no_such_partition(partition, given_by, found)
        return partitions

    return place
