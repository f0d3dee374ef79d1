"""The producer of at-least-once outputs, recreated when its client is unusable.

A client returns the same fatal error for every later call. The transactional producer is replaced
when its successor fences it; this one replaces itself: records that it has not delivered are not
committed, so the replay sends them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from logstate.contracts.clients import PlainProducer
from logstate.contracts.errors import FencedError
from logstate.contracts.records import ProducedFields, TopicPartition

T = TypeVar("T")


class RenewedProducer:
    """A :class:`PlainProducer`; ``make`` creates its client."""

    def __init__(self, make: Callable[[], PlainProducer]) -> None:
        self._make = make
        self._client = make()
        self._is_usable = True

    def produce(self, records: Sequence[ProducedFields]) -> None:
        self._carried_out(lambda client: client.produce(records))

    def flush(self) -> dict[TopicPartition, int]:
        return self._carried_out(lambda client: client.flush())

    def close(self) -> None:
        self._client.close()

    def _carried_out(self, call: Callable[[PlainProducer], T]) -> T:
        if not self._is_usable:
            self._client.close()
            self._client, self._is_usable = self._make(), True
        try:
            return call(self._client)
        except FencedError:
            self._is_usable = False
            raise
