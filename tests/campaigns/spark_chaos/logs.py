"""All inputs of an application's tasks, read while they are written.

What goes through repartition topics is deleted soon after it was processed; who wants to know it
later has to listen.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import confluent_kafka

from logstate.contracts.records import Headers, TopicPartition
from logstate.kafka.log_reader import CONSUMER_CONFIG, QUIET


class Entry(NamedTuple):
    """One committed record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: Headers


class Logs:
    """Follows partitions from their beginning, in a thread of its own, until ``close``."""

    def __init__(self, bootstrap: str, partitions: Iterable[TopicPartition]) -> None:
        self.entries: dict[TopicPartition, list[Entry]] = defaultdict(list)
        self._positions = dict.fromkeys(partitions, 0)
        self._failure: str | None = None
        self._stopping = threading.Event()
        config = {**QUIET, **CONSUMER_CONFIG, "bootstrap.servers": bootstrap}
        self._consumer = confluent_kafka.Consumer({**config, "auto.offset.reset": "error"})
        self._consumer.assign([confluent_kafka.TopicPartition(*tp, 0) for tp in self._positions])
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait_for(self, offsets: Mapping[TopicPartition, int], limit_s: float = 300.0) -> None:
        """Until all below these offsets was read. Raises TimeoutError, or what went wrong."""
        deadline = time.monotonic() + limit_s
        while any(self._positions[tp] < offset for tp, offset in offsets.items()):
            if self._failure is not None:
                raise RuntimeError(self._failure)
            if time.monotonic() > deadline:
                raise TimeoutError(f"read to {self._positions}, wanted {dict(offsets)}")
            self._stopping.wait(0.1)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._consumer.close()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1_000, timeout=0.2):
                error = message.error()
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if error is None:
                    self._take(tp, message)
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    self._positions[tp] = max(self._positions[tp], message.offset() or 0)
                elif not error.retriable():
                    self._failure = f"{tp}: {error.str()}"
                    return

    def _take(self, tp: TopicPartition, message: confluent_kafka.Message) -> None:
        offset = message.offset()
        assert offset is not None
        time_ms = message.timestamp()[1]
        headers = message.headers()
        self.entries[tp].append(
            Entry(offset, message.key(), message.value(), time_ms, headers)  # type: ignore[arg-type]
        )
        self._positions[tp] = offset + 1
