"""One record of the directory: the entry of an instance. Key: the instance's id.

A null value is a clean end. Fields may be added; ``format`` increases for incompatible changes.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated, Final

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.open_rows import OpenRows
from logstate.contracts.topic_names import PARTITIONS_MAX

FORMAT = 1
#: limits for values that any client with write access can produce; larger ones are damage
HEARTBEAT_MAX_MS: Final = 60_000
CLAIM_MAX: Final = 2**53
STOP_TEXT_MAX: Final = 10_000
#: maximum number of tasks, standbys and partitions in one entry
NAMES_MAX: Final = 100_000
#: the claims of an entry: its tasks by id, and its address with this prefix
ADDRESS = "@"


#: format of ``str(TaskId)``
TaskName = Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}_\d{1,9}$")]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
Address = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^(https?://[!-~]+)?\Z")]
Claim = Annotated[int, msgspec.Meta(ge=0, le=CLAIM_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Partitions = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]


class OpenEntry(msgspec.Struct, frozen=True):
    """What an operator has open: windows, sessions, timers, and records that wait."""

    #: at most :data:`logstate.contracts.open_rows.OPEN_ROWS_MAX`: that many or more
    count: Count
    #: stream time at which the first of them closes; None: nothing is open
    next_ms: Count | None
    #: stream time of the operator; None before its first record
    stream_time_ms: Count | None


def open_entry(found: OpenRows) -> OpenEntry:
    """Return the entry of what a look has found."""
    time = found.stream_time_ms
    return OpenEntry(found.total, found.next_ms, time if time >= 0 else None)


class TaskEntry(msgspec.Struct, frozen=True):
    """One task of an instance."""

    #: the higher claim owns the task, see :mod:`logstate.directory.directory_link`
    claim: Claim
    #: ``assigned``, ``restoring``, ``starting`` or ``running``
    stage: Text
    is_readable: bool = False
    #: records between its positions and the ends of its inputs; None: unknown
    lag: Count | None = None
    #: records of its changelogs that are still to be replayed
    restore_records: Count = 0
    #: ``topic-partition`` -> the next input offset that its rows do not include yet
    positions: dict[Text, Count] = {}
    #: since its rows included everything in its inputs; None: unknown
    age_ms: Count | None = None
    #: input records that its rows lack; None: unknown
    rows_lag: Count | None = None
    #: the largest timestamp that it has processed; None before its first record
    stream_time_ms: Count | None = None
    #: empty input partitions that the buffered records of others wait for
    waits_for: tuple[Text, ...] = ()
    #: how long they have waited
    waits_ms: Count = 0
    #: ``topic-partition`` -> the largest timestamp of its processed records
    partition_times: dict[Text, Count] = {}
    #: operator -> its rows that wait for stream time
    open_rows: dict[Text, OpenEntry] = {}


class InstanceMetrics(msgspec.Struct, frozen=True):
    """Counters of an instance since its start; readers compute rates from two entries."""

    #: records taken from inputs and repartition topics
    processed: Count = 0
    #: records dropped by operators
    dropped: Count = 0
    #: records rolled back and sent to the dead letter topic
    dead_lettered: Count = 0
    commits: Count = 0
    #: total duration of the commits
    commit_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0
    #: topic -> records that were read from it, and written to it; empty with very many topics
    read: dict[Text, Count] = {}
    written: dict[Text, Count] = {}


class MemberEntry(msgspec.Struct, frozen=True):
    """A worker that is a member of the group, or is about to join."""

    member_id: Text
    #: ``group.instance.id`` of a static member
    instance_id: Text | None = None


class InstanceEntry(msgspec.Struct, frozen=True):
    """One instance."""

    instance: Text
    #: ``http://host:port`` for queries; empty: none
    address: Address
    #: the higher claim owns the address
    claim: Claim
    #: maximum interval of its entries
    heartbeat_ms: Annotated[int, msgspec.Meta(gt=0, le=10**12)]
    #: number of worker slots
    workers: Partitions = 1
    #: the transactional ids of its workers, one for each member of the group
    members: tuple[Text, ...] = ()
    rack: Text = ""
    #: version of the library
    version: Text = ""
    format: int = FORMAT
    tasks: dict[TaskName, TaskEntry] = {}
    #: sub-topology -> its partition count, if known
    task_counts: dict[Partitions, Partitions] = {}
    #: its workers
    group_members: tuple[MemberEntry, ...] = ()
    #: why all instances of the application must stop: its final message before the tombstone
    stops_all: Annotated[str, msgspec.Meta(max_length=STOP_TEXT_MAX)] = ""
    #: how long the group keeps its static members: its final message before the tombstone
    returns_within_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 0
    #: standbys of other instances' tasks -> lag in offsets; None: not read yet
    standbys: dict[TaskName, Count | None] = {}
    figures: InstanceMetrics = InstanceMetrics()
    #: the next offset of the directory at the time of writing
    position: Count = 0
    #: made with the token (:func:`signed`); the last field in every version
    signature: str = ""

    @property
    def heartbeat_timeout_ms(self) -> int:
        """How long to wait for a heartbeat, with an upper limit."""
        return min(self.heartbeat_ms, HEARTBEAT_MAX_MS)

    def claims(self) -> dict[str, int]:
        """Return everything that this instance claims, with the numbers of the claims."""
        tasks = {task: entry.claim for task, entry in self.tasks.items()}
        return {ADDRESS + self.address: self.claim, **tasks} if self.address else tasks

    def without_figures(self) -> InstanceEntry:
        """Return the part of the entry whose changes are written at once."""
        tasks = {t: TaskEntry(e.claim, e.stage, e.is_readable) for t, e in self.tasks.items()}
        standbys: dict[str, int | None] = dict.fromkeys(self.standbys)
        return msgspec.structs.replace(
            self, tasks=tasks, standbys=standbys, figures=InstanceMetrics(), position=0
        )

    def without_claims(self) -> InstanceEntry:
        """Return the part of an unsigned entry that counts: that the instance exists."""
        return msgspec.structs.replace(
            self, address="", tasks={}, standbys={}, task_counts={}, stops_all=""
        )


def encode_entry(entry: InstanceEntry) -> bytes:
    """Return the value of the record."""
    return msgspec.json.encode(entry)


def decode_entry(value: bytes) -> InstanceEntry | None:
    """Decode an entry; None if this version does not understand it, so no request is routed
    to it.
    """
    try:
        entry = msgspec.json.decode(value, type=InstanceEntry)
    except UNDECODABLE:
        return None
    names = len(entry.tasks) + len(entry.standbys) + sum(entry.task_counts.values())
    return entry if entry.format <= FORMAT and names <= NAMES_MAX else None


def signed(value: bytes, token: str, application_id: str) -> bytes:
    """Sign an encoded entry; only a process that knows the token can do that.

    The signature covers the bytes of the entry, and with them the instance, so versions with other
    fields can check it; and the application, because another one may share the token.

    >>> entry = InstanceEntry("one", "http://a:1", 1, 1_000)
    >>> value = signed(encode_entry(entry), "secret", "shop")
    >>> is_signed(value, "secret", "shop"), is_signed(value, "secret", "other")
    (True, False)
    """
    head = value.removesuffix(_UNSIGNED)
    return head + _SIGNATURE + _digest(head, token, application_id) + b'"}'


def is_signed(value: bytes, token: str, application_id: str) -> bool:
    """Return True if the entry was signed with the token, for this application."""
    head, found, digest = value.rpartition(_SIGNATURE)
    if not found or len(head) + len(_SIGNATURE) + _DIGITS + 2 != len(value):
        return False
    wanted = _digest(head, token, application_id) + b'"}'
    return hmac.compare_digest(digest, wanted)


_SIGNATURE, _UNSIGNED, _DIGITS = b'"signature":"', b'"signature":""}', 64


def _digest(head: bytes, token: str, application_id: str) -> bytes:
    about = b"logstate directory\0" + application_id.encode() + b"\0"
    return hmac.new(token.encode(), about + head, hashlib.sha256).hexdigest().encode()
