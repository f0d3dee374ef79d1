"""The protocols of the clients that the engine uses, and how their calls are made.

The engine does no I/O itself. Each call to a broker or a disk is a :class:`Step` that a generator
YIELDS instead of making the call; the driver of the generator makes the call and sends the result
back. On Kafka the driver is :func:`run_steps`. A simulator drives the same generators over a fake
cluster, interleaves several of them, and stops any of them permanently between two steps, which
simulates a crash.

Offsets are next offsets throughout. ``None`` means "no offset", never a negative number.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from logstate.contracts.records import FetchedRecord, ProducedFields, TopicPartition

T = TypeVar("T")


class Step(NamedTuple):
    """One call of a client, by name, not made yet."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    #: it waits for the brokers, so it is worth another thread
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
    """What the group committed for a partition; offset None if it never committed."""

    offset: int | None
    metadata: str


@dataclass(frozen=True)
class Rebalance:
    """A change of this member's partitions. ``lost``: others may own them already."""

    kind: str  # "assigned" | "revoked" | "lost"
    partitions: Sequence[TopicPartition]


@dataclass(slots=True)
class Polled:
    """The result of one poll."""

    records: dict[TopicPartition, list[FetchedRecord]] = field(default_factory=dict)
    #: partitions whose end was reached, with the position there
    ends: list[tuple[TopicPartition, int]] = field(default_factory=list)
    #: positions that are outside their logs (auto.offset.reset is always "error")
    out_of_range: dict[TopicPartition, int] = field(default_factory=dict)
    #: first offsets of batches that the client cannot read, with the reason; a member of a group
    #: returns records in place of them, and leaves this empty
    unreadable: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    #: changes that the engine has to handle (fakes); on Kafka callbacks have handled them already
    rebalances: list[Rebalance] = field(default_factory=list)


class LogConsumer(Protocol):
    """Reads assigned partitions without a group. Committed records only."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, from these positions."""

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Return records, waiting up to the time-out for the first."""

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read; it is after markers and gaps once they were passed."""

    def close(self) -> None:
        """Release the consumer."""


class GroupConsumer(Protocol):
    """The member of the consumer group. New partitions start paused and without a position."""

    def subscribe(self, topics: Sequence[str], on_rebalance: Callable[[Rebalance], None]) -> None:
        """Join. ``on_rebalance`` must have done all work for a change when it returns."""

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Return records of partitions that are not paused, waiting up to the time-out."""

    def stay(self, is_still: Callable[[], bool]) -> None:
        """Remain a member although the worker does not poll; called on another thread.

        ``is_still``: whether the worker is still in the same function, outside of this client. The
        records of this poll, and every change of the assignment, wait for the worker's next poll.
        """

    def ask_group(self) -> None:
        """Have the next polls report the member's current assignment.

        Otherwise it arrives with the next heartbeat, if members get changes by heartbeats.
        """

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Return committed offsets once no open transaction could change them."""

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Seek to the positions and continue from there."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again."""

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of the logs from the last fetch, without a request to the brokers."""

    def group_metadata(self) -> object:
        """Return the member's current credentials for a transaction."""

    def member_id(self) -> str:
        """Return the id of this member in the group, "" if it is not a member."""

    def give_up(self, topic: str, timeout_s: float) -> None:
        """Have the group assign all partitions to others, even for a static member; then close.

        ``topic`` is an existing topic without readers: the member subscribes to it instead, because
        Kafka has no call that ends a static membership before its session does (KIP-345).
        """

    def close(self) -> None:
        """Leave the group. A static member is expected back within its session time-out."""


class TransactionalProducer(Protocol):
    """One transactional id. Raises AbortableError, FencedError or BrokerError."""

    def init_transactions(self) -> None:
        """Fence an earlier owner of the id, and finish its open transaction."""

    def begin(self) -> None:
        """Open a transaction."""

    def produce(self, records: Sequence[ProducedFields]) -> None:
        """Queue records; they are sent in the background."""

    def flush(self) -> dict[TopicPartition, int]:
        """Wait for delivery; return the next offset of each partition that was written."""

    def send_offsets(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], group_metadata: object
    ) -> None:
        """Add input offsets with their metadata to the transaction."""

    def commit(self) -> None:
        """Commit."""

    def abort(self) -> None:
        """Abort, and drop the queued records."""

    def must_be_replaced(self) -> bool:
        """Return True after a slow or retried end of a transaction: replace the producer."""

    def close(self) -> None:
        """Drop the producer without waiting."""


class PlainProducer(Protocol):
    """Idempotent, without transactions: for outputs with ``at_least_once``."""

    def produce(self, records: Sequence[ProducedFields]) -> None: ...
    def flush(self) -> dict[TopicPartition, int]: ...
    def close(self) -> None: ...


class Pending(Protocol):
    """A call that runs on another thread."""

    def done(self) -> bool:
        """Return whether the call has finished."""

    def result(self) -> Any:
        """Wait for the call; return its result or raise its error."""


class Background(Protocol):
    """Makes calls on another thread, one after the other."""

    @property
    def processes_between_steps(self) -> bool:
        """Whether records are processed between the parts of a commit that do not wait."""

    def start(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Pending: ...
    def close(self) -> None: ...


class TopicDescription(NamedTuple):
    """The cluster's description of a topic."""

    topic_id: str
    partitions: int


class NewTopic(NamedTuple):
    """A topic to create. ``replication_factor`` -1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


class Admin(Protocol):
    """Requests about the cluster, and changes. Raises BrokerError if it is unreachable."""

    def describe_topics(
        self, topics: Sequence[str], beginning: str | None = None
    ) -> dict[str, TopicDescription]:
        """Return those of the topics that exist, and all whose names begin with ``beginning``.

        With ``beginning``, a topic that this client may not see is left out; without it, that is an
        error.
        """

    def topic_names(self) -> list[str]:
        """Return every topic except Kafka's internal ones."""

    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:
        """Create the missing topics; return those that this call certainly created.

        A topic that another instance created meanwhile is left out without an error. So is a topic
        that this call created if the response was lost.
        """

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics with their records; a missing topic is not an error."""

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the effective configuration."""

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first readable offset."""

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of the log, READ UNCOMMITTED: open transactions are below it."""

    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offset: every transaction below it is decided."""

    def offsets_at(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time; the end if there is none."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete records before the offsets."""

    def committed_so_far(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """Return committed offsets even if an open transaction could still change them."""

    def commit_without_members(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit, without metadata, for a group without members; MembersLiveError if it has some.

        The brokers enforce this: only members can commit for a group that has members.
        """

    def close(self) -> None: ...


class ClientErrors(NamedTuple):
    """What the clients reported about their connections since the last call."""

    #: number of their log lines about connections
    lines: int = 0
    #: the last reason they gave: "Connection refused", "SSL handshake failed", ...
    reason: str | None = None
    #: the brokers respond and reject the client: credentials, certificates
    is_refusal: bool = False


class Probe(Protocol):
    """Checks from a separate thread whether the brokers respond."""

    @property
    def brokers(self) -> str:
        """The addresses of the brokers, as configured."""

    def ask(self, timeout_s: float) -> bool:
        """Return whether they respond within the time-out."""

    def client_errors(self) -> ClientErrors:
        """Return what the application's clients reported since the last call."""

    def fold(self, *, is_away: bool) -> None:
        """Set whether the clients' own lines are only counted, and not logged."""

    def close(self) -> None: ...


class Cluster(Protocol):
    """Creates clients. ``logstate.kafka`` has the real one, ``logstate.testing`` a fake."""

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> GroupConsumer: ...
    def log_consumer(self, *, queue_bytes: int | None = None) -> LogConsumer:
        """``queue_bytes``: limit of the fetched bytes; None: the client's default."""
        ...

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer: ...
    def plain_producer(self) -> PlainProducer: ...
    def admin(self) -> Admin: ...
    def background(self) -> Background: ...
    def probe(self) -> Probe: ...
    def partition_for(self, key: bytes, partitions: int, /) -> int:
        """Return the partition of Kafka's default partitioner: murmur2 of the key."""
