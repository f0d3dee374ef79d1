"""InputTopic: writes records to a topic of the test driver, with times that advance automatically.

Records without a timestamp get the topic's own time, which then advances by ``advance``; records
with one do not change that time, as in Kafka Streams' ``TestInputTopic``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from logstate.contracts.record_parts import timestamp_of
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.testing.driver_settings import moved_ms
from logstate.testing.driver_sources import RecordEncoder, parts_of

K = TypeVar("K")
V = TypeVar("V")

_MILLISECOND = timedelta(milliseconds=1)


class _PipeRaw(Protocol):
    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> None: ...


class InputTopic(Generic[K, V]):
    """One input topic; made by ``TopologyTestDriver.input_topic``.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("clicks", value=str).to("copy")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     clicks = driver.input_topic("clicks", start_ms=100, advance=timedelta(milliseconds=5))
    ...     clicks.pipe("ada", "home")
    ...     clicks.pipe("ada", "cart")
    ...     clicks.pipe("bob", "home", timestamp=3)
    ...     [record[:3] for record in driver.output_topic("copy", value=str).read_all()]
    [('ada', 'home', 100), ('ada', 'cart', 105), ('bob', 'home', 3)]

    Source: Kafka Streams' ``TestInputTopic`` (KIP-470).
    """

    def __init__(
        self,
        topic: str,
        key: Serde[K],
        value: Serde[V],
        pipe_raw: _PipeRaw,
        *,
        start_ms: int = 0,
        advance: timedelta = timedelta(0),
    ) -> None:
        clock = f"the time of input topic {topic!r}"
        self._advance_ms = moved_ms(advance, clock)
        start_ms = timestamp_of(start_ms, f"{clock} starts at")
        if start_ms < 0 or self._advance_ms * _MILLISECOND != advance:
            raise ValueError(
                f"input topic {topic!r} cannot start at {start_ms} ms and advance by {advance}:"
                " event time is not negative, and advances by whole milliseconds"
            )
        self.topic = topic
        #: the next record's time, in ms
        self.time_ms = start_ms
        self._pipe_raw = pipe_raw
        self._encoded = RecordEncoder(topic, key, value)

    def pipe(
        self,
        key: K | None,
        value: V | None,
        *,
        timestamp: int | None = None,
        headers: Headers = None,
    ) -> None:
        """Write one record, which is processed at once.

        Args:
            key: the key; None is written as no key.
            value: the value; None is a tombstone.
            timestamp: event time in ms; the topic's own time, which then advances, if not given.
            headers: names and values in order.
        """
        if timestamp is None:
            timestamp = self.time_ms
            self.time_ms += self._advance_ms
        raw_key, raw_value, written = self._encoded(key, value, headers)
        self._pipe_raw(self.topic, raw_key, raw_value, timestamp, written)

    def pipe_values(self, values: Iterable[V | None]) -> None:
        """Write records without keys, one after the other."""
        for value in values:
            self.pipe(None, value)

    def pipe_pairs(self, pairs: Iterable[tuple[K | None, V | None]]) -> None:
        """Write ``(key, value)`` records, one after the other; raise TypeError for other items."""
        for one in pairs:
            key, value = parts_of(one, 2, f"pipe_pairs() of {self.topic!r}", "(key, value) pairs")
            self.pipe(key, value)

    def advance_time(self, by: timedelta) -> None:
        """Advance the topic's own time; raise ValueError for a step back."""
        self.time_ms += moved_ms(by, f"the time of input topic {self.topic!r}")
