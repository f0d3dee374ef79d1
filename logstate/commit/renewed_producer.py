"""The producer of at-least-once outputs, made anew when its client is of no more use.

A client that has met a fatal error says so to every later call. The transactional one is replaced
by whoever fences with its successor; this one replaces itself: what it had taken and not delivered
is not committed, so the replay sends it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from logstate.contracts.clients import PlainProducer
from logstate.contracts.errors import FencedError
from logstate.contracts.records import ProducedFields, TopicPartition

T = TypeVar("T")


class RenewedProducer:
    """A :class:`PlainProducer`; ``make`` makes its client."""

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
