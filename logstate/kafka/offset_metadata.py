"""Committed offsets and their metadata, byte for byte.

The Python client treats metadata as a C string, in both directions. Metadata that it commits ends
with the NUL of such a string, which Kafka Streams on the JVM cannot read: it would lose its stream
times and emit every closed window again. And it reads metadata up to the next NUL in memory, but
only metadata that it committed has one: after the JVM's it reads unrelated memory. No public call
avoids either, so both calls are made directly at librdkafka, whose lists contain the length of the
metadata, with the client's own handle: connections, security and membership stay the client's.

Metadata that earlier versions committed ends with the NUL, and is read without it.

If librdkafka cannot be called directly (:mod:`logstate.kafka.librdkafka` warns), the client is
used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from logstate.contracts.clients import Committed
from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TopicPartition
from logstate.kafka.librdkafka import REMEDY, librdkafka, read_offsets

#: "no offset" in librdkafka
_INVALID = -1001


def read_committed(
    consumer: Consumer, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Committed]:
    """Return what the consumer's group committed; the consumer need not be a member.

    One request. Raises KafkaException if it fails, also for one of the partitions.
    """
    library = librdkafka()
    handle = None if library is None else library.handle_of(consumer)
    if library is None or handle is None:
        return _read_by_the_client(consumer, partitions, timeout_s)
    asked = [(tp.topic, tp.partition, _INVALID, b"") for tp in partitions]
    with library.offsets(asked) as native:
        code = library.committed(handle, native, _milliseconds(timeout_s))
        if code:
            raise KafkaException(KafkaError(code))
        found = read_offsets(native)
    return {
        TopicPartition(one.topic, one.partition): _committed(
            one.topic, one.offset, _text(one.metadata), KafkaError(one.error) if one.error else None
        )
        for one in found
    }


def send_offsets(
    producer: Producer,
    offsets: Mapping[TopicPartition, tuple[int, str]],
    group_metadata: object,
    timeout_s: float,
) -> None:
    """Add offsets with their metadata to the producer's transaction.

    Raises KafkaException with all flags of librdkafka about the transaction.
    """
    library = librdkafka()
    handle = None if library is None else library.handle_of(producer)
    if library is None or handle is None:
        _send_by_the_client(producer, offsets, group_metadata, timeout_s)
        return
    written = cast(bytes, group_metadata)
    given = [(t, p, offset, text.encode()) for (t, p), (offset, text) in offsets.items()]
    group = ctypes.c_void_p()
    library.raise_and_destroy(
        library.consumer_group_metadata_read(ctypes.byref(group), written, len(written))
    )
    try:
        with library.offsets(given) as native:
            error = library.send_offsets_to_transaction(
                handle, native, group, _milliseconds(timeout_s)
            )
    finally:
        library.consumer_group_metadata_destroy(group)
    library.raise_and_destroy(error)


def _text(metadata: bytes) -> str:
    # Other programs may commit any text; only base64 has a meaning here.
    return metadata.partition(b"\x00")[0].decode(errors="replace")


def _committed(topic: str, offset: int, metadata: str, error: KafkaError | None) -> Committed:
    if error is not None:
        raise KafkaException(KafkaError(error.code(), f"{topic}: {error.str()}"))
    return Committed(offset if offset >= 0 else None, metadata)


def _milliseconds(seconds: float) -> int:
    return -1 if seconds < 0 else int(seconds * 1000)


def _read_by_the_client(
    consumer: Consumer, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Committed]:
    found = consumer.committed(
        [confluent_kafka.TopicPartition(*tp) for tp in partitions], timeout_s
    )
    try:
        entries = [(tp.topic, tp.partition, tp.offset, tp.metadata or "", tp.error) for tp in found]
    except UnicodeDecodeError as exc:
        raise BrokerError(
            "the metadata of committed offsets cannot be read: the Python client of librdkafka"
            f" reads past the end of what another program committed. {REMEDY}"
        ) from exc
    return {
        TopicPartition(topic, partition): _committed(topic, offset, metadata, error)
        for topic, partition, offset, metadata, error in entries
    }


def _send_by_the_client(
    producer: Producer,
    offsets: Mapping[TopicPartition, tuple[int, str]],
    group_metadata: object,
    timeout_s: float,
) -> None:
    native = [
        confluent_kafka.TopicPartition(t, p, offset, metadata)
        for (t, p), (offset, metadata) in offsets.items()
    ]
    producer.send_offsets_to_transaction(native, group_metadata, timeout_s)
