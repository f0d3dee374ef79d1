"""Committed offsets and their metadata, byte for byte.

The Python client takes metadata for a C string, both ways. What it commits ends with the NUL that
ends such a string, which Kafka Streams on the JVM cannot read: it would forget its clocks and emit
every closed window again. And what it reads it reads up to the next NUL in memory, though only our
own metadata brings one along: behind the JVM's lies whatever lies there. No public call of the
client avoids either, so both calls are made at librdkafka itself, whose lists know how long the
metadata is, with the client's own handle: connections, security and membership stay the client's.

Metadata that earlier versions committed end with the NUL, and are read without it.

Where librdkafka cannot be reached (:mod:`logstate.kafka.librdkafka` warns), the client is asked.
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

#: "no offset", in librdkafka
_INVALID = -1001


def read_committed(
    consumer: Consumer, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Committed]:
    """What the consumer's group committed for the partitions; the consumer need not be a member.

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

    Raises KafkaException with all that librdkafka says about the transaction.
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
    # Other programs may commit what they like; only text that is base64 means anything here.
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
        told = [(tp.topic, tp.partition, tp.offset, tp.metadata or "", tp.error) for tp in found]
    except UnicodeDecodeError as exc:
        raise BrokerError(
            "the metadata of committed offsets cannot be read: the Python client of librdkafka"
            f" reads what another program committed past its end. {REMEDY}"
        ) from exc
    return {
        TopicPartition(topic, partition): _committed(topic, offset, metadata, error)
        for topic, partition, offset, metadata, error in told
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
