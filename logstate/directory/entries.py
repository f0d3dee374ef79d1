"""One record of the directory: what an instance says of itself. Key: the instance's id.

A null value is a clean end. Fields may be added; ``format`` rises when readers must not guess.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated, Final

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.topic_names import PARTITIONS_MAX

FORMAT = 1
#: bounds of what is told: anybody who can write to the topic tells it. Larger numbers are damage
HEARTBEAT_MAX_MS: Final = 60_000
CLAIM_MAX: Final = 2**53
STOP_TEXT_MAX: Final = 10_000
#: tasks, standbys and partitions that one entry names
NAMES_MAX: Final = 100_000
#: the claims of an entry: its tasks by their ids, and its address under this prefix
ADDRESS = "@"


#: as ``str(TaskId)`` has it
TaskName = Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}_\d{1,9}$")]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
Address = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^(https?://[!-~]+)?\Z")]
Claim = Annotated[int, msgspec.Meta(ge=0, le=CLAIM_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Partitions = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]


class TaskEntry(msgspec.Struct, frozen=True):
    """One task of an instance."""

    #: the higher one owns the task, see :mod:`logstate.directory.claims`
    claim: Claim
    #: ``assigned``, ``restoring``, ``starting`` or ``running``
    stage: Text
    is_readable: bool = False
    #: records between its positions and the ends of its inputs; None: not known yet
    lag: Count | None = None
    #: records of its changelogs that are still to be replayed
    restore_records: Count = 0
    #: ``topic-partition`` -> the next input offset that its rows do not hold yet
    positions: dict[Text, Count] = {}


class InstanceMetrics(msgspec.Struct, frozen=True):
    """What an instance has counted since its start; readers make rates of two of them."""

    #: records taken from inputs and repartition topics
    processed: Count = 0
    #: by the rules of operators
    dropped: Count = 0
    #: rolled back, and sent to the dead letter topic
    dead_lettered: Count = 0
    commits: Count = 0
    #: how long these took together
    commit_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0


class MemberEntry(msgspec.Struct, frozen=True):
    """One member of the group, or one that is about to join: a worker."""

    member_id: Text
    #: ``group.instance.id`` of a static one
    instance_id: Text | None = None


class InstanceEntry(msgspec.Struct, frozen=True):
    """One instance."""

    instance: Text
    #: where it answers, as ``http://host:port``; empty: nowhere
    address: Address
    #: the higher one has the address
    claim: Claim
    #: how often it is heard of at least
    heartbeat_ms: Annotated[int, msgspec.Meta(gt=0, le=10**12)]
    #: slots of workers
    workers: Partitions = 1
    #: the transactional ids of its workers, one for each member of the group
    members: tuple[Text, ...] = ()
    rack: Text = ""
    #: of the library
    version: Text = ""
    format: int = FORMAT
    tasks: dict[TaskName, TaskEntry] = {}
    #: sub-topology -> its partitions, where they are known
    task_counts: dict[Partitions, Partitions] = {}
    #: of its workers
    group_members: tuple[MemberEntry, ...] = ()
    #: why all instances of the application are to stop: its last words before the null
    stops_all: Annotated[str, msgspec.Meta(max_length=STOP_TEXT_MAX)] = ""
    #: how long the group keeps the place of its static members: its last words before the null
    returns_within_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 0
    #: tasks of others whose state it follows -> offsets that it lacks; None: it begins
    standbys: dict[TaskName, Count | None] = {}
    figures: InstanceMetrics = InstanceMetrics()
    #: the next offset of the directory that it had read when it wrote this
    position: Count = 0
    #: by the token (:func:`signed`); the last field, of every version
    signature: str = ""

    @property
    def beat_ms(self) -> int:
        """How long a heartbeat is waited for, whatever the entry says."""
        return min(self.heartbeat_ms, HEARTBEAT_MAX_MS)

    def claims(self) -> dict[str, int]:
        """Everything that this instance says is its own, with the number of the claim."""
        tasks = {task: entry.claim for task, entry in self.tasks.items()}
        return {ADDRESS + self.address: self.claim, **tasks} if self.address else tasks

    def without_figures(self) -> InstanceEntry:
        """What has to be told at once when it changes."""
        tasks = {t: TaskEntry(e.claim, e.stage, e.is_readable) for t, e in self.tasks.items()}
        standbys: dict[str, int | None] = dict.fromkeys(self.standbys)
        return msgspec.structs.replace(
            self, tasks=tasks, standbys=standbys, figures=InstanceMetrics(), position=0
        )

    def without_claims(self) -> InstanceEntry:
        """What counts of an entry that is not signed: that somebody is there, and no more."""
        return msgspec.structs.replace(
            self, address="", tasks={}, standbys={}, task_counts={}, stops_all=""
        )


def encode_entry(entry: InstanceEntry) -> bytes:
    """The value of the record."""
    return msgspec.json.encode(entry)


def decode_entry(value: bytes) -> InstanceEntry | None:
    """None for what this version does not understand: nobody is routed to by a guess."""
    try:
        entry = msgspec.json.decode(value, type=InstanceEntry)
    except UNDECODABLE:
        return None
    names = len(entry.tasks) + len(entry.standbys) + sum(entry.task_counts.values())
    return entry if entry.format <= FORMAT and names <= NAMES_MAX else None


def signed(value: bytes, token: str, application_id: str) -> bytes:
    """An encoded entry, with a signature that only who knows the token can make.

    It covers the bytes of the entry, so that versions with other fields can check it, and with them
    the instance; and the application, whose token another one may share.

    >>> entry = InstanceEntry("one", "http://a:1", 1, 1_000)
    >>> value = signed(encode_entry(entry), "secret", "shop")
    >>> is_signed(value, "secret", "shop"), is_signed(value, "secret", "other")
    (True, False)
    """
    head = value.removesuffix(_UNSIGNED)
    return head + _SIGNATURE + _digest(head, token, application_id) + b'"}'


def is_signed(value: bytes, token: str, application_id: str) -> bool:
    """Whether an entry was written by who knows the token, for this application."""
    head, found, digest = value.rpartition(_SIGNATURE)
    if not found or len(head) + len(_SIGNATURE) + _DIGITS + 2 != len(value):
        return False
    wanted = _digest(head, token, application_id) + b'"}'
    return hmac.compare_digest(digest, wanted)


_SIGNATURE, _UNSIGNED, _DIGITS = b'"signature":"', b'"signature":""}', 64


def _digest(head: bytes, token: str, application_id: str) -> bytes:
    about = b"logstate directory\0" + application_id.encode() + b"\0"
    return hmac.new(token.encode(), about + head, hashlib.sha256).hexdigest().encode()
