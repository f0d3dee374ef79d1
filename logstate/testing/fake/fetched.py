"""A record at rest in a fake log, with the methods of a fetched one."""

from __future__ import annotations

from logstate.contracts.records import Headers

#: confluent_kafka.TIMESTAMP_CREATE_TIME
_CREATE_TIME = 1


class StoredRecord:
    """Immutable by convention; consumers get the object itself."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp = timestamp
        self._headers = headers

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return _CREATE_TIME, self._timestamp

    def headers(self) -> Headers:
        return self._headers
