"""The producer of at-least-once outputs, made anew when its client is of no more use.

A client that has met a fatal error says so to every later call. The transactional one is replaced
by whoever fences with its successor; this one replaces itself: what it had taken and not delivered
is not committed, so the replay sends it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logstate.contracts.errors import FencedError
from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.contracts.seams import PlainProducer


class RenewedProducer:
    """A :class:`PlainProducer`; ``make`` makes its client."""

    def __init__(self, make: Callable[[], PlainProducer]) -> None:
        self._make = make
        self._client = make()
        self._is_usable = True

    def produce(self, records: Sequence[ProducedFields]) -> None:
        client = self._usable()
        try:
            client.produce(records)
        except FencedError:
            self._is_usable = False
            raise

    def flush(self) -> dict[TopicPartition, int]:
        client = self._usable()
        try:
            return client.flush()
        except FencedError:
            self._is_usable = False
            raise

    def close(self) -> None:
        self._client.close()

    def _usable(self) -> PlainProducer:
        if not self._is_usable:
            self._client.close()
            self._client, self._is_usable = self._make(), True
        return self._client
