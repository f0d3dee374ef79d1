"""Topics written and read with the plain client, for tests that are not about the library."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition, cimpl
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import PATIENCE_S, until

# rd_kafka_vtype_t and RD_KAFKA_MSG_F_COPY of librdkafka's public header.
_END: Final = 0
_TOPIC: Final = 1
_VALUE: Final = 4
_MESSAGE_FLAGS: Final = 7
_HEADERS: Final = 10
_COPY: Final = 2


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)


def write(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Write to partition 0 and return when all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    """Every value of partition 0 up to the end offset at the time of the call."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "raw-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
    consumer.assign([partition])
    values: list[bytes] = []

    def is_read() -> bool:
        message = consumer.poll(1.0) if len(values) < end else None
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= end

    until(is_read, lambda: f"only {len(values)} of {end} records of {topic}")
    consumer.close()
    return values


def write_named_headers(
    bootstrap: str, topic: str, records: Iterable[tuple[bytes, list[tuple[bytes, bytes]]]]
) -> None:
    """Write values with headers of any names; the Python client only writes names that are text."""
    library = ctypes.CDLL(cimpl.__file__)
    library.rd_kafka_headers_new.restype = ctypes.c_void_p
    library.rd_kafka_header_add.argtypes = (
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ssize_t),
        *(ctypes.c_char_p, ctypes.c_ssize_t),
    )
    producer = Producer({"bootstrap.servers": bootstrap})
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
    for value, named in records:
        headers = library.rd_kafka_headers_new(len(named))
        for name, content in named:
            library.rd_kafka_header_add(headers, name, len(name), content, len(content))
        fields = (
            *(ctypes.c_int(_TOPIC), ctypes.c_char_p(topic.encode())),
            *(ctypes.c_int(_VALUE), ctypes.c_char_p(value), ctypes.c_size_t(len(value))),
            *(ctypes.c_int(_MESSAGE_FLAGS), ctypes.c_int(_COPY)),
            *(ctypes.c_int(_HEADERS), ctypes.c_void_p(headers), ctypes.c_int(_END)),
        )
        assert library.rd_kafka_producev(ctypes.c_void_p(handle), *fields) == 0
    assert producer.flush(PATIENCE_S) == 0
