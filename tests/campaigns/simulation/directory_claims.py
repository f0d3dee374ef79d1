"""Workers of one machine that share a state directory, whose files are deleted now and then.

The claims, the locks of tasks and the removal of unused rows are those of the library, in a real
directory; the rows of a task are in memory, and are gone with the directory of the task. Two
workers share one machine, so a worker that was silent may have the directory open that its heir
needs. Lock files, files of ids, directories of tasks and the whole directory are deleted at any
time, and another instance is started with the slot of one that runs, or of one that is dead.

A slot has one holder at most, unless both of its files were deleted since the holder looked last;
the holder has to notice that when it looks. Rows that somebody has open are not removed. A slot
keeps its id. The results are those of any schedule.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from logstate.app.unused_rows import UnusedRows
from logstate.changelog.directory import StateDirectory
from logstate.changelog.task_lock import TaskLock
from logstate.contracts.errors import DirectoryInUseError, StateDirectoryError
from logstate.contracts.records import TaskId
from logstate.testing.fake.process import FakeProcess
from logstate.testing.simulation.disk import Directory, Disk, DiskBackend
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.oracles import Wrong
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: the slots of each machine
_MACHINES = ((0, 1), (2,))
_CLEANUP_DELAY_MS = 100
_LOOKS_FOR_UNUSED, _CHECKS, _INTRUDES, _LEAVES = 0.5, 0.3, 0.04, 0.2
_DELETES_FILE, _DELETES_TASK, _DELETES_ALL = 0.06, 0.01, 0.003
_ROWS = "rows"

_Place = tuple[int, int]


@dataclass
class Opened:
    """The directory of a task that a process has open."""

    path: Path
    place: _Place
    lock: TaskLock
    directory: Directory
    #: the schedule has deleted it
    is_deleted: bool = False


@dataclass
class Machine:
    """One state directory, which several workers share."""

    root: Path
    #: of each directory that was ever made, by the number that it holds
    rows: list[Directory] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Of the application."""
        return self.root / flow.APPLICATION

    def directory_at(self, path: Path) -> Directory:
        """The rows that belong to a directory; new ones where it is new."""
        file = path / _ROWS
        if not file.exists():
            file.write_text(str(len(self.rows)))
            self.rows.append(Directory(path))
        return self.rows[int(file.read_text())]

    def directories(self) -> dict[TaskId, Directory]:
        """Those that are there now."""
        files = self.path.glob(f"*_*/{_ROWS}")
        return {TaskId.parse(file.parent.name): self.directory_at(file.parent) for file in files}


class SharedDisk(Disk):
    """The state directory of a machine, as one slot uses it."""

    def __init__(self, machine: Machine, number: int) -> None:
        super().__init__()
        self.machine = machine
        self.number = number
        self.claim: StateDirectory | None = None
        self.opened: dict[TaskId, Opened] = {}
        #: suffixes of the files of this slot that were deleted since its holder looked last
        self.deleted: set[str] = set()
        self.instance_id: str | None = None
        #: another instance that was started with this slot
        self.intruder: StateDirectory | None = None

    def claim_slot(self) -> None:
        """Raises StateDirectoryError where another process has the slot."""
        self.claim = StateDirectory(self.machine.root, flow.APPLICATION, slot=self.number)
        if self.intruder is not None:
            self._check_intruder_notices(self.intruder)
            self.intruder = None
        found, before = self.claim.instance_id, self.instance_id
        if before is not None and found != before and ".id" not in self.deleted:
            raise Wrong(f"slot {self.number} had the id {before}, and has {found} now")
        self.instance_id = found
        self.deleted.clear()

    def _check_intruder_notices(self, intruder: StateDirectory) -> None:
        if not self.is_unprotected:
            raise Wrong(f"slot {self.number} has two holders; {self.deleted} were deleted")
        try:
            intruder.check()
        except StateDirectoryError:
            intruder.close()
        else:
            raise Wrong(f"the holder of slot {self.number} did not notice that it has another one")

    @property
    def is_unprotected(self) -> bool:
        """Whether both files were deleted, so that whoever starts finds a free slot."""
        return {".lock", ".id"} <= self.deleted

    def open(self, task_id: TaskId, process: FakeProcess) -> DiskBackend:
        """Raises DirectoryInUseError where another worker has it open."""
        assert self.claim is not None
        path, lock = self.claim.use_task(task_id)
        directory = self.machine.directory_at(path)
        if directory.is_open:
            lock.release()
            raise DirectoryInUseError(f"{path} is open in another worker")
        directory.is_open = True
        self.opened[task_id] = Opened(path, place_of(path), lock, directory)
        return SharedBackend(self, directory, process, task_id)

    def close(self, task_id: TaskId) -> None:
        """The directory of a task is not open any more."""
        opened = self.opened.pop(task_id, None)
        if opened is not None:
            opened.directory.is_open = opened.directory.refuses_write = False
            opened.lock.release()

    def quarantine(self, task_id: TaskId) -> None:
        assert self.claim is not None
        assert task_id not in self.opened, "a directory is put aside while it is open"
        self.claim.quarantine_task(task_id)
        self.quarantined += 1

    def release(self) -> None:
        for task_id in list(self.opened):
            self.close(task_id)
        if self.claim is not None:
            self.claim.close()
            self.claim = None


class SharedBackend(DiskBackend):
    """What a process holds of an open directory."""

    def __init__(
        self, disk: SharedDisk, directory: Directory, process: FakeProcess, task_id: TaskId
    ) -> None:
        super().__init__(disk, directory, process)
        self._shared = disk
        self._task_id = task_id

    def close(self) -> None:
        if self._is_open and not self._process.is_killed:
            self._shared.close(self._task_id)
        self._is_open = False


class ClaimingSlot(Slot):
    """Begins with a claim, as an instance does; where that is refused it does not run."""

    disk: SharedDisk
    unused_rows: UnusedRows

    def start(self) -> None:
        try:
            self.disk.claim_slot()
        except StateDirectoryError:
            self._counters["claims_refused"] += 1
            return
        claim = self.disk.claim
        assert claim is not None
        self.unused_rows = UnusedRows(
            claim, self._topology, self.clock, _CLEANUP_DELAY_MS, self._here
        )
        super().start()

    def _here(self) -> Collection[TaskId] | None:
        return self.owned_tasks if self.has_tasks else None


def place_of(path: Path) -> _Place:
    """Of a directory; (0, 0) where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


class DirectoryClaims(Schedule):
    """A schedule of three workers on two machines."""

    slot_class = ClaimingSlot
    slots: list[ClaimingSlot]  # type: ignore[assignment]

    @classmethod
    def of(cls, seed: int) -> DirectoryClaims:
        """The configuration and the faults of a seed; processes die, and machines do not."""
        drawn = draw(seed)
        faults = tuple(replace(fault, disk="") for fault in drawn.faults)
        return cls(replace(drawn, workers=3, faults=faults))

    def __init__(self, swarm: Swarm) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="logstate-claims-")
        self._machines = [Machine(Path(self._folder.name) / f"machine-{n}") for n in range(2)]
        super().__init__(swarm)

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        machine = next(m for m, slots in enumerate(_MACHINES) if number in slots)
        slot.disk = SharedDisk(self._machines[machine], number)
        return slot

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._close_intruders()
            self._folder.cleanup()

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"directory-claims-{self.swarm.seed}-{turn}")
        self._delete(rng)
        self._intrude(rng)
        for slot in self.slots:
            if slot.is_running and rng.random() < _CHECKS:
                self._check(slot)
            if slot.is_running and rng.random() < _LOOKS_FOR_UNUSED:
                self.counters["removed_rows"] += len(slot.unused_rows.check())
        self._check_open_directories()
        super()._run_turn(turn)

    def _run_without_faults(self, start: int) -> None:
        self._close_intruders()
        for slot in self.slots:
            if slot.is_running:
                self._check(slot)
        super()._run_without_faults(start)

    def _finish(self) -> None:
        super()._finish()
        for slot in self.slots:
            slot.disk.directories = slot.disk.machine.directories()

    # ------------------------------------------------------------------ faults

    def _delete(self, rng: random.Random) -> None:
        slot = rng.choice(self.slots)
        if rng.random() < _DELETES_FILE:
            for suffix in rng.choice(((".lock",), (".id",), (".lock", ".id"))):
                path = slot.disk.machine.path / f"instance-{slot.number}{suffix}"
                path.unlink(missing_ok=True)
                slot.disk.deleted.add(suffix)
                self.counters["deleted_files"] += 1
        if slot.disk.opened and rng.random() < _DELETES_TASK:
            opened = slot.disk.opened[rng.choice(sorted(slot.disk.opened))]
            shutil.rmtree(opened.path, ignore_errors=True)
            opened.is_deleted = True
            self.counters["deleted_tasks"] += 1
        if rng.random() < _DELETES_ALL:
            machine = slot.disk.machine
            shutil.rmtree(machine.path, ignore_errors=True)
            for one in (s for s in self.slots if s.disk.machine is machine):
                one.disk.deleted |= {".lock", ".id", ""}
                for opened in one.disk.opened.values():
                    opened.is_deleted = True
            self.counters["deleted_directories"] += 1

    def _intrude(self, rng: random.Random) -> None:
        """Another instance is started with the slot of one of these, or ends."""
        slot = rng.choice(self.slots)
        number, disk = slot.number, slot.disk
        if disk.intruder is not None:
            if rng.random() < _LEAVES:
                disk.intruder.close()
                disk.intruder = None
            return
        if rng.random() > _INTRUDES:
            return
        is_free = not slot.is_running
        self.counters["compared_claims"] += 1
        try:
            claim = StateDirectory(disk.machine.root, flow.APPLICATION, slot=number)
        except StateDirectoryError as error:
            if is_free:
                raise Wrong(f"slot {number} is free, and could not be claimed: {error}") from error
            self.counters["intruders_refused"] += 1
            return
        if not (is_free or disk.is_unprotected):
            claim.close()
            raise Wrong(f"slot {number} has two holders; {disk.deleted} were deleted")
        disk.intruder = claim
        if claim.instance_id != disk.instance_id and ".id" not in disk.deleted | {""}:
            raise Wrong(f"slot {number} had the id {disk.instance_id}, not {claim.instance_id}")
        if is_free:
            disk.instance_id = claim.instance_id
            disk.deleted.clear()
        self.counters["intruders"] += 1

    def _close_intruders(self) -> None:
        for disk in (slot.disk for slot in self.slots):
            if disk.intruder is not None:
                disk.intruder.close()
                disk.intruder = None

    # ------------------------------------------------------------------ what must hold

    def _check(self, slot: ClaimingSlot) -> None:
        """A holder looks whether all is as it was; where it is not it ends."""
        disk, claim = slot.disk, slot.disk.claim
        assert claim is not None
        is_gone = "" in disk.deleted or any(one.is_deleted for one in disk.opened.values())
        is_taken = disk.intruder is not None
        try:
            claim.check(disk.opened)
        except StateDirectoryError as error:
            if not (is_gone or is_taken):
                raise Wrong(f"slot {slot.number} ended without a reason: {error}") from error
            self.counters["noticed"] += 1
            slot.crash()
            return
        if is_gone or is_taken:
            raise Wrong(f"slot {slot.number} did not notice: {disk.deleted}, taken: {is_taken}")
        disk.deleted.clear()

    def _check_open_directories(self) -> None:
        """Nobody but the schedule removes a directory that is open."""
        for slot in self.slots:
            for task_id, opened in slot.disk.opened.items():
                self.counters["compared_open_directories"] += 1
                if place_of(opened.path) != opened.place and not opened.is_deleted:
                    raise Wrong(f"{opened.path} is gone, and slot {slot.number} has {task_id} open")
