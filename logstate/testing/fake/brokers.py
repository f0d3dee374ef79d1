"""The server side of the fake cluster: topics, groups and transactions."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, Protocol

from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.errors import RefusedError, TopicError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.record_parts import headers_of, timestamp_of
from logstate.contracts.records import Headers, ProducedFields, TopicPartition
from logstate.testing.fake.faults import Faults
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.fake.group import Group
from logstate.testing.fake.partition_log import PartitionLog, Transaction
from logstate.testing.fake.topic import FakeTopic
from logstate.testing.fake.transactions import TransactionCoordinator

#: size of a record in addition to its key and value
_RECORD_OVERHEAD_BYTES = 70
#: longest time between two looks at the clock while a poll waits
_LOOK_S = 0.01
#: of keys that were placed lately: tests write the same few again and again
_partition_of = lru_cache(1_000)(partition_of)


class Sending(Protocol):
    """A producer whose records are on their way."""

    def arrive(self, count: int) -> None:
        """So many of them reach the log."""


class FakeBrokers:
    """The state of an in-memory cluster; see ``FakeCluster`` for the arguments."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        clock: Clock | None = None,
        group_protocol: Literal["consumer", "classic"] = "consumer",
        transaction_timeout_ms: int = 10_000,
        session_timeout_ms: int = 45_000,
        delays_markers: bool = False,
        buffers_sends: bool = False,
        fetch_records_max: int | None = None,
        splits_assignments: bool = False,
        background_looks_max: int = 0,
        seed: int = 0,
    ) -> None:
        self.clock = clock or SystemClock()
        #: the brokers' wall clock
        self.now_ms: Callable[[], int] = self.clock.wall_clock_ms
        self.is_incremental = group_protocol == "consumer"
        self.buffers_sends = buffers_sends
        self.topics: dict[str, FakeTopic] = {}
        #: the same logs by partition, which are asked for all the time
        self._logs: dict[TopicPartition, PartitionLog] = {}
        #: the log of a partition, or None
        self.log_or_none: Callable[[TopicPartition], PartitionLog | None] = self._logs.get
        self.groups: dict[str, Group] = {}
        self.transactions = TransactionCoordinator(
            transaction_timeout_ms, delays_markers=delays_markers
        )
        #: faults ordered for coming calls
        self.faults = Faults()
        #: why no call reaches the brokers, as a client would say it; None: calls do
        self.away: str | None = None
        #: producers that hold records back
        self.sending: dict[Sending, None] = {}
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        #: polls wait, in real time
        self.waits = isinstance(self.clock, SystemClock)
        self._random = random.Random(seed)  # noqa: S311  reproducible, not secret
        self._session_timeout_ms = session_timeout_ms
        self._fetch_records_max = fetch_records_max
        self._splits_assignments = splits_assignments
        self.background_looks_max = background_looks_max
        #: a call in the background has its effect when it begins, not when its worker looks for it
        self.background_takes_effect_at_once = False
        self._topics_made = 0
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    # ------------------------------------------------------------------ topics

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; raises TopicError where it exists."""
        with self.lock:
            if name in self.topics:
                raise TopicError(f"topic {name!r} exists already")
            self._topics_made += 1
            topic_id = f"topic-{self._topics_made:06d}"
            topic = self.topics[name] = FakeTopic(name, topic_id, partitions, config)
            self._logs.update(zip(topic.partitions, topic.logs, strict=True))
            for group in self.groups.values():
                group.rebalance()

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase a topic's partition count; groups that read it rebalance."""
        with self.lock:
            topic = self.topic(name)
            topic.grow(partitions)
            self._logs.update(zip(topic.partitions, topic.logs, strict=True))
            for group in self.groups.values():
                group.rebalance()

    def delete_topic(self, name: str) -> None:
        """Delete a topic and what groups committed for it; one that is gone already is fine."""
        with self.lock:
            topic = self.topics.pop(name, None)
            for partition in () if topic is None else topic.partitions:
                for group in self.groups.values():
                    group.offsets.committed.pop(partition, None)

    def recreate_topic(self, name: str) -> None:
        """Delete a topic and create it again: empty, with another topic id."""
        with self.lock:
            old = self.topics.pop(name)
            self.create_topic(name, len(old.logs), old.config)

    def topic(self, name: str) -> FakeTopic:
        """Raises TopicError for an unknown one."""
        found = self.topics.get(name)
        if found is None:
            raise TopicError(f"topic {name!r} does not exist; there are {sorted(self.topics)}")
        return found

    def log(self, partition: TopicPartition) -> PartitionLog:
        """The log of a partition; raises TopicError for an unknown one."""
        found = self._logs.get(partition)
        return found if found is not None else self.topic(partition.topic).logs[partition.partition]

    # ------------------------------------------------------------------ for tests

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp: int | None = None,
        partition: int | None = None,
        headers: Headers = None,
    ) -> int:
        """Write one record outside transactions; ``timestamp`` None is now. Returns its offset."""
        with self.lock:
            now_ms = self.now_ms()
            when = now_ms if timestamp is None else timestamp_of(timestamp, "produce() got")
            headers = headers_of(headers, "produce() got")
            record = (topic, partition, key, value, when, headers)
            offset = self.append(self.partition_of(record), record, now_ms, writer="test")
            self.notify()
            return offset

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """The committed records, partition by partition."""
        with self.lock:
            logs = self.topic(topic).logs
            chosen = logs if partition is None else [logs[partition]]
            return [record for log in chosen for record in log.committed()]

    def wait_for_records(self, topic: str, count: int, timeout_s: float = 30.0) -> None:
        """Wait until the topic holds so many committed records; raises TimeoutError."""
        if not self.wait_for(lambda: len(self.records(topic)) >= count, timeout_s):
            raise TimeoutError(f"{topic!r} has {len(self.records(topic))} records, not {count}")

    def committed_offset(self, group_id: str, topic: str, partition: int = 0) -> int | None:
        """What a group committed; None where it never did."""
        with self.lock:
            found = self.group(group_id).offsets.committed
            committed = found.get(TopicPartition(topic, partition))
            return None if committed is None else committed.offset

    # ------------------------------------------------------------------ the background

    def tick(self) -> None:
        """Throw out silent members, abort old transactions: what the clock says is due."""
        with self.lock:
            now_ms = self.now_ms()
            self.transactions.expire(now_ms)
            for group in self.groups.values():
                group.expire(now_ms)

    def deliver_marker(self, index: int = 0) -> None:
        """One waiting transaction marker arrives (see ``transactions.pending``)."""
        with self.lock:
            self.transactions.deliver(self.now_ms(), index)
            self.notify()

    def deliver_late_end(self, index: int = 0) -> None:
        """A repeated commit or abort arrives (see ``transactions.late``)."""
        with self.lock:
            self.transactions.deliver_late_end(self.now_ms(), index)
            self.notify()

    def arrive(self, producer: Sending, count: int) -> None:
        """Records that a producer handed over reach the log (see ``sending``)."""
        with self.lock:
            producer.arrive(count)
            self.notify()

    def clean(self, topic: str) -> None:
        """Compact and expire a topic as its configuration says."""
        with self.lock:
            self.topic(topic).clean(self.now_ms())

    # ------------------------------------------------------------------ for the clients

    def group(self, name: str) -> Group:
        """A group, made at first use."""
        with self.lock:
            if name not in self.groups:
                self.groups[name] = Group(
                    name,
                    is_incremental=self.is_incremental,
                    session_timeout_ms=self._session_timeout_ms,
                    partition_counts=lambda: {n: len(t.logs) for n, t in self.topics.items()},
                    chosen=self._random_partitions,
                )
            return self.groups[name]

    def background_looks(self) -> int:
        """How often the next call made in the background is found unfinished."""
        most = self.background_looks_max
        return self._random.randint(0, most) if most else 0

    def fetch_limit(self, max_records: int) -> int:
        """How many records one poll may bring."""
        return min(max_records, self._fetch_records_max or max_records)

    def check_size(self, record: ProducedFields) -> None:
        """Raises RefusedError for a record the topic does not take."""
        name, _, key, value, _, headers = record
        topic = self.topics.get(name)
        if topic is None:
            raise RefusedError(f"output topic {name!r} does not exist: create it first")
        size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        if headers:
            size += sum(len(header) + len(text or b"") for header, text in headers)
        if size > topic.bytes_max:
            raise RefusedError(
                f"a record of {size} bytes for {name!r} is over max.message.bytes ="
                f" {topic.bytes_max} (MSG_SIZE_TOO_LARGE)"
            )

    def partition_of(self, record: ProducedFields) -> TopicPartition:
        """Where a record goes: its own choice, murmur2 of the key, or anywhere."""
        name, number, key, *_ = record
        partitions = self.topic(name).partitions
        if number is not None:
            if not 0 <= number < len(partitions):
                raise RefusedError(
                    f"{name!r} has no partition {number} (_UNKNOWN_PARTITION);"
                    f" it has {len(partitions)}: correct the partitioner",
                    topic=name,
                )
            return partitions[number]
        if key is None:
            return partitions[self._random.randrange(len(partitions))]
        return partitions[_partition_of(key, len(partitions))]

    def append(
        self,
        partition: TopicPartition,
        record: ProducedFields,
        now_ms: int,
        *,
        writer: str,
        transaction: Transaction | None = None,
    ) -> int:
        """A record reaches its log."""
        _, _, key, value, timestamp, headers = record
        # The client takes 0 for "not given" (negative times stay what they are).
        if not timestamp or self.topics[partition.topic].uses_append_time:
            timestamp = now_ms
        return self._logs[partition].append(
            key,
            value,
            timestamp,
            headers,
            now_ms,
            transaction=transaction,
            writer=writer,
        )

    def notify(self) -> None:
        """Something changed: wake the polls that wait."""
        if self.waits:
            self._changed.notify_all()

    def wait_for(self, check: Callable[[], bool], timeout_s: float) -> bool:
        """Look until there is something, no longer than the time-out; once on a manual clock."""
        if not self.waits:
            return check()
        with self.lock:
            self.tick()
            if check():
                return True
            deadline_ms = self.clock.monotonic_ms() + timeout_s * 1000
            while (left_ms := deadline_ms - self.clock.monotonic_ms()) > 0:
                self._changed.wait(min(_LOOK_S, left_ms / 1000))
                self.tick()
                if check():
                    return True
            return False

    def _random_partitions(self, free: set[TopicPartition]) -> set[TopicPartition]:
        if not self._splits_assignments or len(free) < 2:
            return free
        ordered = sorted(free)
        return set(self._random.sample(ordered, self._random.randint(1, len(ordered))))
