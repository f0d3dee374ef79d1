"""An instance's own thread to the directory: it writes what is true here, and reads the rest.

It has a producer and a consumer of its own, outside of transactions and of the group: whatever
happens to them, records are processed. Where the brokers cannot be reached it tries again; by then
the entries it has read count no more, and questions get an error instead of a guess.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from logstate.contracts.clients import Admin, Cluster, LogConsumer, NewTopic, PlainProducer
from logstate.contracts.clock import Clock, pause
from logstate.contracts.errors import LogstateError, TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import instances_topic
from logstate.directory.claims import Claims
from logstate.directory.entries import (
    STOP_TEXT_MAX,
    InstanceEntry,
    TaskEntry,
    encode_entry,
    is_signed,
    signed,
)
from logstate.directory.known_instances import INSTANCES_MAX, KnownInstances, address_claim
from logstate.directory.log_time import LogTime

_LOGGER = logging.getLogger(__name__)

HEARTBEAT_MS = 1_000
_POLL_S = 0.1
_BATCH = 1_000
_RETRY_S = 1.0
#: a clean end may wait so long for the brokers to take its tombstone
_LAST_WORD_S = 3.0


@dataclass(frozen=True)
class DirectoryTopic:
    """The topic, as it is made where it is missing."""

    application_id: str
    replication_factor: int
    overrides: Mapping[str, str]

    @property
    def partition(self) -> TopicPartition:
        """Its only one."""
        return TopicPartition(instances_topic(self.application_id), 0)

    def new(self) -> NewTopic:
        """Compacted: of each instance the last entry stays."""
        config = {
            "cleanup.policy": "compact",
            "message.timestamp.type": "CreateTime",
            # An entry a second: a start reads what was not compacted yet.
            "segment.bytes": "16777216",
            "segment.ms": "600000",
            "min.cleanable.dirty.ratio": "0.1",
            **self.overrides,
        }
        return NewTopic(self.partition.topic, 1, self.replication_factor, config)

    def ensure(self, admin: Admin) -> None:
        """Make it, or check the one that is there; raises TopicError."""
        name = self.partition.topic
        if name not in admin.describe_topics([name]):
            admin.create_topics([self.new()])
        partitions = admin.describe_topics([name])[name].partitions
        if partitions != 1:
            raise TopicError(
                f"internal topic {name!r} has {partitions} partitions and needs 1: entries of"
                " instances are compared by their order in the log. Stop all instances, delete it,"
                " and start them again; nothing else is kept there"
            )


class DirectoryLink:
    """See the module. ``describe`` tells the entry of now; its claims are made here.

    ``listened`` is called in its thread, again and again while it is in touch; ``told_to_stop``
    with the entry of an instance that asked all others to stop, since this one began to listen.

    ``token``: what all instances know. With one, entries are signed by it, and one that is not
    counts for no address, no task and no request to stop: whoever can write to the topic could
    have the token sent to an address, take tasks, or stop every instance. Without a token only an
    instance that was heard of before, and is not silent, can ask others to stop.
    """

    def __init__(
        self,
        topic: DirectoryTopic,
        cluster: Cluster,
        clock: Clock,
        describe: Callable[[], InstanceEntry],
        listened: Callable[[], None] = lambda: None,
        told_to_stop: Callable[[InstanceEntry], None] = lambda _: None,
        token: str = "",
    ) -> None:
        self._topic = topic
        self._token = token
        self._cluster = cluster
        self._clock = clock
        self._describe = describe
        self._listened = listened
        self._told_to_stop = told_to_stop
        #: what was said before this offset was said to those who were there then
        self._since: int | None = None
        #: what comes next in the topic
        self._position = 0
        #: instances whose records this version ignores: each is told once
        self._ignored: set[str] = set()
        #: its last words: why all instances are to stop, how long its members may be away
        self._stops_all = ""
        self._returns_within_ms = 0
        self.known = KnownInstances()
        #: why it is not in touch with the directory; None while it is
        self.trouble: str | None = "the directory of the application has not been read yet"
        self.changed = threading.Condition()
        self._claims: Claims | None = None
        self._told: InstanceEntry | None = None
        self._told_ms = float("-inf")
        self._has_read_all = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """In a thread of its own."""
        name = f"logstate-directory-{self._topic.application_id}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._thread = thread  # one that the system refuses is not waited for

    def stop(self, stops_all: str = "", returns_within_ms: int = 0) -> None:
        """With a tombstone, where the brokers take it soon. ``stops_all``: why others end too;
        ``returns_within_ms``: how long the group keeps the places of its members, 0: not at all.
        """
        self._stops_all = stops_all
        self._returns_within_ms = returns_within_ms
        self._is_stopping = True
        if self._thread is not None:
            self._thread.join(_LAST_WORD_S)

    # ------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._be_in_touch()
            except LogstateError as exc:
                self._lost(str(exc))
                pause(_RETRY_S, lambda: self._is_stopping)
            except Exception as exc:
                _LOGGER.exception("the directory of the instances failed; it is tried again")
                self._lost(f"{type(exc).__name__}: {exc}")
                pause(_RETRY_S, lambda: self._is_stopping)

    def _lost(self, why: str) -> None:
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
                self._begin_anew()
            past = LogTime()
            while not self._is_stopping and (consumer.position(partition) or 0) < end:
                self._listen(consumer, past)
            self.known.have_been_silent(past.silences(), self._clock.monotonic_ms())
            self._has_read_all = True
            self._listened()  # a new producer takes half a second to write its first entry
            producer = self._cluster.plain_producer()
            clients.callback(_closed, producer)
            while not self._is_stopping:
                self._tell(producer)
                self._listen(consumer)
                self._listened()
            self._say_goodbye(producer)

    def _listen(self, consumer: LogConsumer, past: LogTime | None = None) -> None:
        """``past``: is told the entries that were there before this reader."""
        partition = self._topic.partition
        polled = consumer.poll(_BATCH, _POLL_S)
        if polled.out_of_range:
            self._begin_anew()
            raise LogstateError(f"{partition} was made anew; it is read again")
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
                self._distrust(instance, offset)
            if entry is not None and past is not None:
                past.heard(entry, record.timestamp()[1])
            if entry is not None and offset >= (self._since or 0):
                if entry.returns_within_ms:
                    self.known.expect(entry, now)
                if entry.stops_all:
                    self._asked_to_stop(entry, offset, may_stop=may_stop)
            if self._told is not None and instance == self._told.instance:
                self._has_come_back()
        if polled.records:
            with self.changed:
                self.changed.notify_all()

    def _asked_to_stop(self, entry: InstanceEntry, offset: int, *, may_stop: bool) -> None:
        """An old record that was written again names a position before this one listened."""
        is_new = not self._token or entry.position >= (self._since or 0)
        if may_stop and is_new:
            self._told_to_stop(entry)
            return
        why = "it was written for an earlier run" if may_stop else "its writer is not known"
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

    def _distrust(self, instance: str, offset: int) -> None:
        if self._is_first(instance):
            _LOGGER.warning(
                "instance %.100r has no address and no tasks here: offset %d of %s is not signed"
                " with the token of Serving. It has another token, or an earlier version of"
                " logstate, or another program wrote it",
                instance,
                offset,
                self._topic.partition,
            )

    def _is_first(self, instance: str) -> bool:
        """Whether an instance is told about: each once, and no more than there can be."""
        if instance in self._ignored or len(self._ignored) >= INSTANCES_MAX:
            return False
        self._ignored.add(instance)
        return True

    def _ignore(self, instance: str, offset: int) -> None:
        if not self.known.has_heard(instance) and self._is_first(instance):
            _LOGGER.warning(
                "instance %.100r is ignored: offset %d of %s is no entry that this version reads;"
                " a newer version of logstate wrote it, or another program",
                instance,
                offset,
                self._topic.partition,
            )

    def _begin_anew(self) -> None:
        """The topic is another one: all that it has was said since this instance listens."""
        self.known.forget()
        self._since = self._position = 0

    def _has_come_back(self) -> None:
        """Its own entry came out of the log: so did those of all others that it must know."""
        if self._has_read_all:
            self.trouble = None

    def _tell(self, producer: PlainProducer) -> None:
        now, entry = self._clock.monotonic_ms(), self._claimed()
        told = self._told
        is_news = told is None or entry.without_figures() != told.without_figures()
        if not is_news and now - self._told_ms < entry.heartbeat_ms:
            return
        records = [self._record(entry.instance, self._encoded(entry))]
        records += [self._record(gone, None) for gone in self.known.abandoned(now)]
        producer.produce(records)
        producer.flush()
        self._told, self._told_ms = entry, now

    def _encoded(self, entry: InstanceEntry) -> bytes:
        """As it is written, signed where there is a token."""
        value = encode_entry(msgspec.structs.replace(entry, position=self._position))
        if not self._token:
            return value
        return signed(value, self._token, self._topic.application_id)

    def _claimed(self) -> InstanceEntry:
        """What is true now, with the numbers of its claims."""
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

    def _say_goodbye(self, producer: PlainProducer) -> None:
        if self._told is None:
            return
        told = msgspec.structs.replace(
            self._told,
            group_members=self._describe().group_members,
            stops_all=self._stops_all[:STOP_TEXT_MAX],
            returns_within_ms=self._returns_within_ms,
        )
        has_words = told.stops_all or told.returns_within_ms
        last_words = [self._record(told.instance, self._encoded(told))] if has_words else []
        producer.produce([*last_words, self._record(told.instance, None)])
        producer.flush()

    def _record(self, instance: str, value: bytes | None) -> ProducedRecord:
        topic, number = self._topic.partition
        return ProducedRecord(topic, number, instance.encode(), value, self._clock.wall_clock_ms())


def _closed(client: Admin | LogConsumer | PlainProducer) -> None:
    with contextlib.suppress(LogstateError):
        client.close()
