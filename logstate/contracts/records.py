"""The basic classes of the library: records, partitions, tasks, windowed keys.

Vocabulary used everywhere:

- *offset*: always the NEXT one to read or write, unless a name says ``last_offset``. Kafka commits
  and seeks with next offsets; mixing the two conventions is the classic restore bug.
- *timestamp*: event time, milliseconds since the epoch.
- *headers*: a list of ``(name, bytes or None)`` in order, or None if a record has none. A list
  is never changed in place after a record was forwarded, because siblings share the object. User
  code may change the list that it receives, and the one that it passed: both are separate copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L")
W = TypeVar("W")

Headers: TypeAlias = "list[tuple[str, bytes | None]] | None"


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> str:
    """Return the partitions as text, grouped by topic.

    >>> by_topic([TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("v", 0)])
    'clicks [0, 1], v [0]'
    """
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(partition)
    return ", ".join(f"{topic} {found}" for topic, found in numbers.items())


class TaskId(NamedTuple):
    """A sub-topology applied to one partition; shown as ``0_3``, as in Kafka Streams."""

    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub_topology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Parse the result of ``str``: ``TaskId.parse("0_3") == TaskId(0, 3)``."""
        sub_topology, _, partition = text.partition("_")
        return cls(int(sub_topology), int(partition))


class Windowed(NamedTuple, Generic[K]):
    """A key inside a window: what windowed aggregations use as their key.

    Times are event times in ms. ``end_ms`` is exclusive for tumbling and hopping windows and
    inclusive for sliding and session windows, as in Kafka Streams.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
    >>> builder = StreamsBuilder()
    >>> minute = TumblingWindows(size=timedelta(minutes=1))
    >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(minute)
    >>> starts = clicks.count(store="n").to_stream(lambda window, n: f"{window.start_ms}")
    >>> starts.to("counts", key=str, value=int)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("clicks", "ada", "home", timestamp=61_000)
    ...     driver.read("counts", value=int)
    [('60000', 1)]
    """

    key: K
    start_ms: int
    end_ms: int


class Change(NamedTuple, Generic[V]):
    """A change of a table row. ``old`` is None if there was no row, ``new`` if it was
    deleted. ``KTable.to_change_stream`` forwards them, in the order of the table's updates.

    >>> Change(new=5, old=None)
    Change(new=5, old=None)
    """

    new: V | None
    old: V | None


class Record(NamedTuple, Generic[K, V]):
    """A record that a processor receives and forwards. Immutable.

    ``with_key`` and ``with_value`` derive one with another type, ``_replace`` one of the same type.

    >>> Record("ada", 3, 10).with_value("three")
    Record(key='ada', value='three', timestamp=10, headers=None)
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = None

    def with_key(self, key: L) -> Record[L, V]:
        """Return the record with another key; it keeps its timestamp and headers."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: W) -> Record[K, W]:
        """Return the record with another value; it keeps its timestamp and headers."""
        return Record(self.key, value, self.timestamp, self.headers)


class RecordMetadata(NamedTuple):
    """The origin of the current record; not available inside punctuators.

    >>> RecordMetadata("orders", partition=0, offset=42).offset
    42
    """

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """Facts about a record in addition to its key and value; passed to choosers of topics.

    ``topic``, ``partition`` and ``offset`` are the origin of the current record: None, -1
    and -1 inside scheduled callbacks. ``timestamp`` and ``headers`` are those that are written.

    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> def by_tenant(key, value, context):
    ...     return f"out-{dict(context.headers)['tenant'].decode()}"
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=str).to(by_tenant)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("in", "ada", "tea", headers=[("tenant", b"shop")])
    ...     driver.read("out-shop", value=str)
    [('ada', 'tea')]
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers = None


class FetchedRecord(Protocol):
    """A record as a consumer returns it.

    This is the shape of ``confluent_kafka.Message``, so the hot path needs no conversion; the fake
    log returns objects with the same methods.
    """

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> Any: ...
    def value(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Any: ...


#: A produced record as a plain tuple, in the order of :class:`ProducedRecord`. Making a named tuple
#: costs five times as much, and every result of every operator chain is one.
ProducedFields: TypeAlias = "tuple[str, int | None, bytes | None, bytes | None, int, Headers]"


class ProducedRecord(NamedTuple):
    """A record on its way to a topic; ``partition`` None lets the producer choose (null keys)."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = None
