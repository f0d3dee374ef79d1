"""The engine's contact with the outside: what a client must offer, and how calls are made.

The engine is a machine without I/O. Each contact with a broker or a disk is a :class:`Step` that a
generator YIELDS instead of making the call; whoever drives the generator makes the call and sends
the result back. On Kafka the driver is :func:`run_steps`, one line. A simulator drives the same
generators over a fake cluster, interleaves several of them, and stops any of them for ever between
any two steps: that is a crash.

Offsets are next offsets throughout. ``None`` stands for "no offset", never a negative number.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from logstate.contracts.records import FetchedRecord, ProducedFields, TopicPartition

T = TypeVar("T")


class Step(NamedTuple):
    """One call across a seam, by name, not yet made."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    #: it returns when the brokers have answered: worth a thread of its own
    awaits_brokers: bool = False


Steps: TypeAlias = "Generator[Step, Any, T]"


def run_steps(steps: Steps[T]) -> T:
    """Make each call at once: the driver on a real cluster."""
    try:
        step = next(steps)
        while True:
            try:
                result = step.call(*step.arguments)
            except Exception as exc:  # noqa: BLE001  the machine decides what an error means
                step = steps.throw(exc)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class Committed(NamedTuple):
    """What the group committed for a partition; offset None where it never did."""

    offset: int | None
    metadata: str


@dataclass(frozen=True)
class Rebalance:
    """A change of this member's partitions. ``lost``: others may own them already."""

    kind: str  # "assigned" | "revoked" | "lost"
    partitions: Sequence[TopicPartition]


@dataclass(slots=True)
class Polled:
    """What one poll brought."""

    records: dict[TopicPartition, list[FetchedRecord]] = field(default_factory=dict)
    #: partitions whose end was reached, with the position there
    ends: list[tuple[TopicPartition, int]] = field(default_factory=list)
    #: positions that are outside their logs (auto.offset.reset is always "error")
    out_of_range: dict[TopicPartition, int] = field(default_factory=dict)
    #: first offsets of batches that the client cannot read, with the reason; a member of a group
    #: returns records in place of them, and leaves this empty
    unreadable: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    #: changes the machine still has to answer (fakes); on Kafka callbacks answered them already
    rebalances: list[Rebalance] = field(default_factory=list)


class LogConsumer(Protocol):
    """Reads partitions it is told to read; belongs to no group. Committed records only."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, from these positions."""

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Records, waiting up to the time-out for the first."""

    def position(self, partition: TopicPartition) -> int | None:
        """Next offset to be read; beyond markers and gaps once they were passed."""

    def close(self) -> None:
        """Release it."""


class GroupConsumer(Protocol):
    """The member of the consumer group. New partitions start paused and without a position."""

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        """Join. ``on_rebalance`` must have done all work for a change when it returns."""

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Records of partitions that are not paused, waiting up to the time-out for the first."""

    def stay(self, is_still: Callable[[], bool]) -> None:
        """Remain a member though nobody polls; from another thread.

        ``is_still``: whether whoever polls is still where he was seen, outside of this client. What
        this brings, and every change of the assignment, waits for the next poll.
        """

    def ask_group(self) -> None:
        """Have the next polls tell what the group has for this member by now.

        Otherwise it is told with the next heartbeat, where members hear of changes by their own.
        """

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Committed offsets once no transaction that could change them is open."""

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Seek to the positions and read on from there."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again."""

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends of the logs as told by the last fetch; without a question to the brokers."""

    def group_metadata(self) -> object:
        """The member's credentials for a transaction, fresh."""

    def member_id(self) -> str:
        """Id of this member in the group, "" when it is not one."""

    def give_up(self, topic: str, timeout_s: float) -> None:
        """Have the group give all partitions to others, of a static member too; then only close it.

        ``topic`` exists and is read by nobody: the member subscribes to that one instead, because
        no call of Kafka's ends a static membership for good before its session does (KIP-345).
        """

    def close(self) -> None:
        """Leave the group. A static member is expected back within its session time-out."""


class TransactionalProducer(Protocol):
    """One transactional id. Raises AbortableError, FencedError or BrokerError."""

    def init_transactions(self) -> None:
        """Fence and finish whatever an earlier owner of the id left open."""

    def begin(self) -> None:
        """Open a transaction."""

    def produce(self, records: Sequence[ProducedFields]) -> None:
        """Hand records over; they travel in the background."""

    def flush(self) -> dict[TopicPartition, int]:
        """Wait for delivery; next offset after the last delivered record of each partition."""

    def send_offsets(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], group_metadata: object
    ) -> None:
        """Add input offsets with their metadata to the transaction."""

    def commit(self) -> None:
        """Commit."""

    def abort(self) -> None:
        """Abort and forget what was handed over."""

    def is_suspect(self) -> bool:
        """True after a slow or retried end of a transaction: the producer must be replaced."""

    def close(self) -> None:
        """Drop it without waiting."""


class PlainProducer(Protocol):
    """Idempotent, without transactions: outputs of ``at_least_once``."""

    def produce(self, records: Sequence[ProducedFields]) -> None: ...
    def flush(self) -> dict[TopicPartition, int]: ...
    def close(self) -> None: ...


class Pending(Protocol):
    """A call that is being made elsewhere."""

    def done(self) -> bool:
        """Whether its result is there."""

    def result(self) -> Any:
        """Wait for it; raises what the call raised."""


class Background(Protocol):
    """Makes calls on another thread, one after the other."""

    @property
    def gives_turns(self) -> bool:
        """Whether records are processed between parts of a commit that wait for nothing, too."""

    def start(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Pending: ...
    def close(self) -> None: ...


class TopicDescription(NamedTuple):
    """What the cluster knows of a topic."""

    topic_id: str
    partitions: int


class NewTopic(NamedTuple):
    """A topic to be made. ``replication_factor`` -1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


class Admin(Protocol):
    """Questions and changes to the cluster. Raises BrokerError when it cannot be reached."""

    def describe_topics(
        self, topics: Sequence[str], beginning: str | None = None
    ) -> dict[str, TopicDescription]:
        """Those of the topics that exist, and all whose names have this ``beginning``.

        With a ``beginning`` a topic that this client may not see does not exist; without one that
        is an error.
        """

    def topic_names(self) -> list[str]:
        """Every topic, but those that Kafka keeps for itself."""

    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:
        """Create what is not there, and tell which of them this call made.

        A topic that another instance made meanwhile is fine, and is not told. Nor is one that this
        call made if the answer was lost: what is told is surely ours, what is not told may be.
        """

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete, records and all; a topic that is gone already is fine."""

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Effective configuration."""

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First readable offset."""

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """End of the log, READ UNCOMMITTED: data of open transactions lies below it."""

    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Last stable offset: below it every transaction is decided."""

    def offsets_at(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """First offset at or after a time; the end where there is none."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Purge what lies before the offsets."""

    def committed_so_far(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """Committed offsets although an open transaction could still change them."""

    def commit_without_members(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit, without metadata, for a group without members; MembersLiveError if it has some.

        The brokers see to it: who is no member cannot commit for a group that has one.
        """

    def close(self) -> None: ...


class ClientErrors(NamedTuple):
    """What the clients said about their connections since they were asked last."""

    #: how many lines they wrote about it
    lines: int = 0
    #: the last reason they gave: "Connection refused", "SSL handshake failed", ...
    reason: str | None = None
    #: the brokers are there and do not let the client in: credentials, certificates
    is_refusal: bool = False


class Probe(Protocol):
    """Asks the brokers for a sign of life, from a thread of its own."""

    @property
    def brokers(self) -> str:
        """Whom it asks, as configured."""

    def ask(self, timeout_s: float) -> bool:
        """Whether they answer within the time-out."""

    def client_errors(self) -> ClientErrors:
        """What the clients of the application said since the last call."""

    def fold(self, *, is_away: bool) -> None:
        """Whether to keep the clients' own lines out of the log, and count them only."""

    def close(self) -> None: ...


class Cluster(Protocol):
    """Makes clients. ``logstate.kafka`` has the real one, ``logstate.testing`` a fake."""

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> GroupConsumer: ...
    def log_consumer(self, *, queue_bytes: int | None = None) -> LogConsumer:
        """``queue_bytes``: about so much is fetched ahead at most; None: as the client does."""
        ...

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer: ...
    def plain_producer(self) -> PlainProducer: ...
    def admin(self) -> Admin: ...
    def background(self) -> Background: ...
    def probe(self) -> Probe: ...
    def partition_for(self, key: bytes, partitions: int) -> int:
        """Kafka's default partitioner: murmur2 of the key."""
