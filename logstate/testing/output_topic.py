"""OutputTopic: reads what a topology wrote to a topic of the test driver, record by record.

Reading takes records away, here and from ``TopologyTestDriver.read``: there is one queue per topic.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RegistryError, SerdeError
from logstate.contracts.record_parts import shown
from logstate.contracts.records import ProducedRecord, Record
from logstate.contracts.serde import Serde, record_decoders
from logstate.testing.driver_log import DriverLog

K = TypeVar("K")
V = TypeVar("V")


class OutputTopic(Generic[K, V]):
    """One output topic; made by ``TopologyTestDriver.output_topic``.

    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("clicks", value=str).to("copy")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "home", 1), ("bob", "home", 2), ("ada", "cart", 3)])
    ...     copy = driver.output_topic("copy", value=str)
    ...     copy.read()
    ...     copy.read_value(), len(copy)
    ...     copy.read_to_dict(), copy.is_empty
    Record(key='ada', value='home', timestamp=1, headers=None)
    ('home', 1)
    ({'ada': 'cart'}, True)

    Source: Kafka Streams' ``TestOutputTopic`` (KIP-470).
    """

    def __init__(self, topic: str, key: Serde[K], value: Serde[V], log: DriverLog) -> None:
        self.topic = topic
        self._log = log
        self._serdes = {"key": key, "value": value}
        self._decode_key, self._decode_value = record_decoders(key, value, topic)

    def __len__(self) -> int:
        """Return how many records wait to be read."""
        return len(self._log.by_topic.get(self.topic, ()))

    @property
    def is_empty(self) -> bool:
        """Whether everything has been read."""
        return len(self) == 0

    def read(self) -> Record[K | None, V | None]:
        """Take the next record; raise LookupError if there is none.

        Raises SerdeError, like all reads, for bytes that the declared types cannot decode; then no
        record is taken.
        """
        if self.is_empty:
            written = sorted(topic for topic, waiting in self._log.by_topic.items() if waiting)
            raise LookupError(
                f"output topic {self.topic!r} has no more records; records wait in"
                f" {written or 'no topic'}. Check is_empty or len() first, or the piped records."
            )
        return self._take_records(1)[0]

    def read_value(self) -> V | None:
        """Take the next record; return its value."""
        return self.read().value

    def read_pair(self) -> tuple[K | None, V | None]:
        """Take the next record; return its key and value."""
        return self.read()[:2]

    def read_all(self) -> list[Record[K | None, V | None]]:
        """Take all waiting records."""
        return self._take_records(None)

    def read_values(self) -> list[V | None]:
        """Take all waiting records; return their values."""
        return [record.value for record in self.read_all()]

    def read_pairs(self) -> list[tuple[K | None, V | None]]:
        """Take all waiting records; return their keys and values."""
        return [record[:2] for record in self.read_all()]

    def read_to_dict(self) -> dict[K, V | None]:
        """Return the last value of each key, None if it was a tombstone.

        Raises ValueError for a record without a key.
        """
        found: dict[K, V | None] = {}
        for record in self.read_all():
            if record.key is None:
                raise ValueError(
                    f"output topic {self.topic!r} has a record without a key, {record!r}, which a"
                    " dict cannot contain: use read_all()"
                )
            found[record.key] = record.value
        return found

    def _take_records(self, limit: int | None) -> list[Record[K | None, V | None]]:
        waiting = self._log.by_topic.get(self.topic, [])[:limit]
        records = [self._decoded(record) for record in waiting]
        self._log.read(self.topic, limit)
        return records

    def _decoded(self, record: ProducedRecord) -> Record[K | None, V | None]:
        raw_key, raw_value, headers = record.key, record.value, list(record.headers or ())
        part, raw = "key", raw_key
        try:
            key = None if raw_key is None else self._decode_key(raw_key, headers)
            part, raw = "value", raw_value
            value = None if raw_value is None else self._decode_value(raw_value, headers)
        except RegistryError:
            raise
        except Exception as error:
            raise SerdeError(
                f"the {part} of a record of output topic {self.topic!r} is {shown(raw)}, which"
                f" {self._serdes[part]!r} does not read: {text_of(error)}. Give {part}= as the"
                " topology writes it"
            ) from error
        return Record(key, value, record.timestamp, record.headers)
