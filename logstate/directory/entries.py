"""One record of the directory: what an instance says of itself. Key: the instance's id.

A null value is a clean end. Fields may be added; ``format`` rises when readers must not guess.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from logstate.contracts.errors import UNDECODABLE

FORMAT = 1
#: the claims of an entry: its tasks by their ids, and its address under this prefix
ADDRESS = "@"


#: as ``str(TaskId)`` has it
TaskName = Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}_\d{1,9}$")]


class TaskEntry(msgspec.Struct, frozen=True):
    """One task of an instance."""

    #: the higher one owns the task, see :mod:`logstate.directory.claims`
    claim: int
    #: ``assigned``, ``restoring``, ``starting`` or ``running``
    stage: str
    is_readable: bool = False
    #: records between its positions and the ends of its inputs; None: not known yet
    lag: int | None = None
    #: records of its changelogs that are still to be replayed
    restore_records: int = 0
    #: ``topic-partition`` -> the next input offset that its rows do not hold yet
    positions: dict[str, int] = {}


class Figures(msgspec.Struct, frozen=True):
    """What an instance has counted since its start; readers make rates of two of them."""

    #: records taken from inputs and repartition topics
    processed: int = 0
    #: by the rules of operators
    dropped: int = 0
    #: rolled back, and sent to the dead letter topic
    dead_lettered: int = 0
    commits: int = 0
    #: how long these took together
    commit_seconds: float = 0.0


class MemberEntry(msgspec.Struct, frozen=True):
    """One member of the group, or one that is about to join: a worker."""

    member_id: str
    #: ``group.instance.id`` of a static one
    instance_id: str | None = None


class InstanceEntry(msgspec.Struct, frozen=True):
    """One instance."""

    instance: str
    #: where it answers, as ``http://host:port``; empty: nowhere
    address: str
    #: the higher one has the address
    claim: int
    #: how often it is heard of at least
    heartbeat_ms: Annotated[int, msgspec.Meta(gt=0)]
    #: slots of workers
    workers: int = 1
    #: the transactional ids of its workers, one for each member of the group
    members: tuple[str, ...] = ()
    rack: str = ""
    #: of the library
    version: str = ""
    format: int = FORMAT
    tasks: dict[TaskName, TaskEntry] = {}
    #: sub-topology -> its partitions, where they are known
    task_counts: dict[int, int] = {}
    #: of its workers
    group_members: tuple[MemberEntry, ...] = ()
    #: why all instances of the application are to stop: its last words before the null
    stops_all: str = ""
    #: how long the group keeps the place of its static members: its last words before the null
    returns_within_ms: int = 0
    #: tasks of others whose state it follows -> offsets that it lacks; None: it begins
    standbys: dict[TaskName, int | None] = {}
    figures: Figures = Figures()

    def claims(self) -> dict[str, int]:
        """Everything that this instance says is its own, with the number of the claim."""
        tasks = {task: entry.claim for task, entry in self.tasks.items()}
        return {ADDRESS + self.address: self.claim, **tasks} if self.address else tasks

    def without_figures(self) -> InstanceEntry:
        """What has to be told at once when it changes."""
        tasks = {t: TaskEntry(e.claim, e.stage, e.is_readable) for t, e in self.tasks.items()}
        standbys: dict[str, int | None] = dict.fromkeys(self.standbys)
        return msgspec.structs.replace(self, tasks=tasks, standbys=standbys, figures=Figures())


def encode_entry(entry: InstanceEntry) -> bytes:
    """The value of the record."""
    return msgspec.json.encode(entry)


def decode_entry(value: bytes) -> InstanceEntry | None:
    """None for what this version does not understand: nobody is routed to by a guess."""
    try:
        entry = msgspec.json.decode(value, type=InstanceEntry)
    except UNDECODABLE:
        return None
    return entry if entry.format <= FORMAT else None
