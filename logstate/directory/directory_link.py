"""The thread of an instance that writes its directory entry and reads the other entries.

It has a separate producer and consumer, outside of transactions and of the group: record processing
does not depend on them. While the brokers cannot be reached it retries; the entries that it has
read expire meanwhile, and queries get an error instead of outdated information.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from logstate.contracts.clients import Admin, Cluster, LogConsumer, NewTopic, PlainProducer
from logstate.contracts.clock import Clock, pause
from logstate.contracts.errors import LogstateError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import instances_topic
from logstate.directory.entries import (
    CLAIM_MAX,
    STOP_TEXT_MAX,
    InstanceEntry,
    TaskEntry,
    encode_entry,
    is_signed,
    signed,
)
from logstate.directory.known_instances import INSTANCES_MAX, KnownInstances, address_claim
from logstate.directory.log_time import LogTime


class Claims:
    """The claims of one instance."""

    def __init__(self, instance: str, known: KnownInstances) -> None:
        self._instance = instance
        self._known = known
        self._numbers: dict[str, int] = {}

    def of(self, names: Iterable[str], now_ms: float) -> dict[str, int]:
        """Return the numbers for the given names; drop claims on other names."""
        self._numbers = {name: self._number(name, now_ms) for name in names}
        return dict(self._numbers)

    def _number(self, name: str, now_ms: float) -> int:
        number = self._numbers.get(name)
        if number is None or self._known.is_second(self._instance, name, number, now_ms):
            return min(self._known.highest_claim(name) + 1, CLAIM_MAX)
        return number


_LOGGER = logging.getLogger(__name__)

HEARTBEAT_MS = 1_000
_POLL_S = 0.1
_BATCH = 1_000
_RETRY_S = 1.0
#: how long a clean stop may wait until the brokers have its tombstone
_LAST_WORD_S = 3.0


@dataclass(frozen=True)
class DirectoryTopic:
    """The directory topic, and its settings if it must be created."""

    application_id: str
    replication_factor: int
    overrides: Mapping[str, str]

    @property
    def partition(self) -> TopicPartition:
        """Its only partition."""
        return TopicPartition(instances_topic(self.application_id), 0)

    def new(self) -> NewTopic:
        """Return the topic to create: compacted, so the last entry of each instance remains."""
        config = {
            "cleanup.policy": "compact",
            "message.timestamp.type": "CreateTime",
            # There is an entry per second: a start reads those that are not compacted yet.
            "segment.bytes": "16777216",
            "segment.ms": "600000",
            "min.cleanable.dirty.ratio": "0.1",
            **self.overrides,
        }
        return NewTopic(self.partition.topic, 1, self.replication_factor, config)

    def ensure(self, admin: Admin) -> None:
        """Create the topic, or check the existing one; raise TopicError."""
        name = self.partition.topic
        if name not in admin.describe_topics([name]):
            admin.create_topics([self.new()])
        partitions = admin.describe_topics([name])[name].partitions
        if partitions != 1:
            raise TopicError(
                f"internal topic {name!r} has {partitions} partitions and needs 1: entries of"
                " instances are compared by their order in the log. Stop all instances, delete the"
                " topic, and start them again; it contains nothing else"
            )


class DirectoryLink:
    """Runs the thread. ``describe`` returns the current entry; its claims are added here.

    ``listened`` is called in the thread repeatedly while the directory is available;
    ``on_stop_request`` with the entry of an instance that requested that all others stop, since
    this one began to listen.

    ``token``: a secret of all instances. With a token, entries are signed with it, and an unsigned
    entry counts for no address, no task and no stop request: otherwise any client that can write to
    the topic could redirect the token to an address, take tasks, or stop every instance. Without a
    token only an instance with recent heartbeats can request that others stop.
    """

    def __init__(
        self,
        topic: DirectoryTopic,
        cluster: Cluster,
        clock: Clock,
        describe: Callable[[], InstanceEntry],
        listened: Callable[[], None] = lambda: None,
        on_stop_request: Callable[[InstanceEntry], None] = lambda _: None,
        token: str = "",
    ) -> None:
        self._topic = topic
        self._token = token
        self._cluster = cluster
        self._clock = clock
        self._describe = describe
        self._listened = listened
        self._on_stop_request = on_stop_request
        #: requests before this offset were for the instances of that time
        self._since: int | None = None
        #: next offset of the topic
        self._position = 0
        #: instances whose records this version ignores: each is logged once
        self._ignored: set[str] = set()
        #: its final message: why all instances must stop, how long its members may be away
        self._stops_all = ""
        self._returns_within_ms = 0
        self.known = KnownInstances()
        #: why the directory is unavailable; None while it is available
        self.trouble: str | None = "the directory of the application has not been read yet"
        self.changed = threading.Condition()
        self._claims: Claims | None = None
        self._written: InstanceEntry | None = None
        self._written_ms = float("-inf")
        self._has_read_all = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Start the thread."""
        name = f"logstate-directory-{self._topic.application_id}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._thread = thread  # a thread that could not start is not joined

    def stop(self, stops_all: str = "", returns_within_ms: int = 0) -> None:
        """Stop, and write a tombstone if the brokers respond soon.

        ``stops_all``: why other instances must stop as well; ``returns_within_ms``: how long the
        group keeps the membership of its members, 0: not at all.
        """
        self._stops_all = stops_all
        self._returns_within_ms = returns_within_ms
        self._is_stopping = True
        if self._thread is not None:
            self._thread.join(_LAST_WORD_S)

    # ------------------------------------------------------------------ in its thread

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._be_in_touch()
            except LogstateError as exc:
                self._fail(str(exc))
                pause(_RETRY_S, lambda: self._is_stopping)
            except Exception as exc:
                _LOGGER.exception("the directory of the instances failed and will be retried")
                self._fail(f"{type(exc).__name__}: {exc}")
                pause(_RETRY_S, lambda: self._is_stopping)

    def _fail(self, why: str) -> None:
        if self.trouble is None:
            _LOGGER.warning("the directory of instances is unavailable, retrying: %s", why)
        self.trouble = f"the directory of the application cannot be read: {why}"

    def _be_in_touch(self) -> None:
        partition = self._topic.partition
        with contextlib.ExitStack() as clients:
            admin = self._cluster.admin()
            clients.callback(_closed, admin)
            self._topic.ensure(admin)
            start = admin.start_offsets([partition])[partition]
            end = admin.end_offsets([partition])[partition]
            consumer = self._cluster.log_consumer()
            clients.callback(_closed, consumer)
            consumer.assign({partition: start})
            self._has_read_all = False
            self._since = end if self._since is None else self._since
            if end < self._position:
                self._restart()
            past = LogTime()
            while not self._is_stopping and (consumer.position(partition) or 0) < end:
                self._listen(consumer, past)
            self.known.have_been_silent(past.silences(), self._clock.monotonic_ms())
            self._has_read_all = True
            self._listened()  # a new producer needs half a second to write its first entry
            producer = self._cluster.plain_producer()
            clients.callback(_closed, producer)
            while not self._is_stopping:
                self._write(producer)
                self._listen(consumer)
                self._listened()
            self._write_tombstone(producer)

    def _listen(self, consumer: LogConsumer, past: LogTime | None = None) -> None:
        """``past``: receives the entries from before the start of this reader."""
        partition = self._topic.partition
        polled = consumer.poll(_BATCH, _POLL_S)
        if polled.out_of_range:
            self._restart()
            raise LogstateError(f"{partition} was recreated; it is read again")
        self._position = consumer.position(partition) or 0
        now = self._clock.monotonic_ms()
        for record in polled.records.get(partition, ()):
            instance = (record.key() or b"").decode("utf-8", "replace")
            offset = record.offset() or 0
            value = record.value()
            is_trusted = not self._token or value is None or self._is_signed(value)
            may_stop = is_trusted if self._token else self.known.is_heard_lately(instance, now)
            entry = self.known.heard(instance, value, offset, now, is_trusted=is_trusted)
            if entry is None and value is not None:
                self._ignore(instance, offset)
            if entry is not None and not is_trusted:
                self._mark_as_untrusted(instance, offset)
            if entry is not None and past is not None:
                past.heard(entry, record.timestamp()[1])
            if entry is not None and offset >= (self._since or 0):
                if entry.returns_within_ms:
                    self.known.expect(entry, now)
                if entry.stops_all:
                    self._asked_to_stop(entry, offset, may_stop=may_stop)
            if self._written is not None and instance == self._written.instance:
                self._has_come_back()
        if polled.records:
            with self.changed:
                self.changed.notify_all()

    def _asked_to_stop(self, entry: InstanceEntry, offset: int, *, may_stop: bool) -> None:
        """A repeated old record has a position from before this instance began to listen."""
        is_new = not self._token or entry.position >= (self._since or 0)
        if may_stop and is_new:
            self._on_stop_request(entry)
            return
        why = "it was written for an earlier run" if may_stop else "its writer is unknown"
        _LOGGER.warning(
            "a request to stop all instances is ignored: %s (offset %d of %s, instance %.100r)."
            " Another program can write to the topic; see docs/queries.md about tokens",
            why,
            offset,
            self._topic.partition,
            entry.instance,
        )

    def _is_signed(self, value: bytes) -> bool:
        return is_signed(value, self._token, self._topic.application_id)

    def _mark_as_untrusted(self, instance: str, offset: int) -> None:
        if self._is_first(instance):
            _LOGGER.warning(
                "instance %.100r has no address and no tasks here: offset %d of %s is not signed"
                " with the token of Serving. It has a different token or an earlier version of"
                " logstate, or another program wrote it",
                instance,
                offset,
                self._topic.partition,
            )

    def _is_first(self, instance: str) -> bool:
        """Return True if an instance has not been logged yet; limits the number of messages."""
        if instance in self._ignored or len(self._ignored) >= INSTANCES_MAX:
            return False
        self._ignored.add(instance)
        return True

    def _ignore(self, instance: str, offset: int) -> None:
        if not self.known.has_valid_entry(instance) and self._is_first(instance):
            _LOGGER.warning(
                "instance %.100r is ignored: offset %d of %s is not an entry that this version can"
                " read; a newer version of logstate or another program wrote it",
                instance,
                offset,
                self._topic.partition,
            )

    def _restart(self) -> None:
        """The topic was recreated: all its records were written since this instance listens."""
        self.known.forget()
        self._since = self._position = 0

    def _has_come_back(self) -> None:
        """Its own entry was read from the log, and so were all earlier entries of the others."""
        if self._has_read_all:
            self.trouble = None

    def _write(self, producer: PlainProducer) -> None:
        now, entry = self._clock.monotonic_ms(), self._claimed()
        written = self._written
        is_news = written is None or entry.without_figures() != written.without_figures()
        if not is_news and now - self._written_ms < entry.heartbeat_ms:
            return
        records = [self._record(entry.instance, self._encoded(entry))]
        records += [self._record(gone, None) for gone in self.known.abandoned(now)]
        producer.produce(records)
        producer.flush()
        self._written, self._written_ms = entry, now

    def _encoded(self, entry: InstanceEntry) -> bytes:
        """Encode the entry, and sign it if there is a token."""
        value = encode_entry(msgspec.structs.replace(entry, position=self._position))
        if not self._token:
            return value
        return signed(value, self._token, self._topic.application_id)

    def _claimed(self) -> InstanceEntry:
        """Return the current entry with the numbers of its claims."""
        entry, now = self._describe(), self._clock.monotonic_ms()
        if self._claims is None:
            self._claims = Claims(entry.instance, self.known)
        address = address_claim(entry.address)
        numbers = self._claims.of((address, *entry.tasks), now)
        tasks: dict[str, TaskEntry] = {
            task: msgspec.structs.replace(one, claim=numbers[task])
            for task, one in entry.tasks.items()
        }
        return msgspec.structs.replace(entry, claim=numbers[address], tasks=tasks)

    def _write_tombstone(self, producer: PlainProducer) -> None:
        if self._written is None:
            return
        last = msgspec.structs.replace(
            self._written,
            group_members=self._describe().group_members,
            stops_all=self._stops_all[:STOP_TEXT_MAX],
            returns_within_ms=self._returns_within_ms,
        )
        has_words = last.stops_all or last.returns_within_ms
        last_words = [self._record(last.instance, self._encoded(last))] if has_words else []
        producer.produce([*last_words, self._record(last.instance, None)])
        producer.flush()

    def _record(self, instance: str, value: bytes | None) -> ProducedRecord:
        topic, number = self._topic.partition
        return ProducedRecord(topic, number, instance.encode(), value, self._clock.wall_clock_ms())


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
