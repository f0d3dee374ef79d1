"""The state directory of an instance: who may use it, and where each task's rows are.

Layout below ``state_dir``, all of it readable by its owner only::

    <application id>/
        logstate.json         marker: this directory is ours, and whose application it holds
        instance-<slot>.lock  held (flock) while an instance or worker runs; says who holds it
        instance-<slot>.id    a random id that stays with the slot over restarts
        <task id>/            the RocksDB database of a task
            logstate.json     marker: nothing without it is ever deleted
            files/            what the user's processors keep there
        quarantine/           damaged task directories, the newest few, to be examined

The lock goes with its owner: a process that is forked from it closes its copy of the file.
Workers of one application on one machine share the directory and have different slots; a
task's own database has a lock too, so that two workers never have it open at once. Deleting renames
first, so that a crash half way leaves no directory that looks whole.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import socket
import uuid
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from logstate.changelog.backend.rocks_errors import too_few_files
from logstate.changelog.lock_holders import holder_of_id, holder_of_lock
from logstate.changelog.task_lock import TaskLock, exclusive_lock, use
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, StateDirectoryError
from logstate.contracts.records import TaskId
from logstate.contracts.setting_rules import is_application_id, shown

_LOGGER = logging.getLogger(__name__)

MARKER: Final = "logstate.json"
_FORMAT: Final = 1
_QUARANTINE: Final = "quarantine"
_FILES: Final = "files"
_QUARANTINED_MAX: Final = 3
_DOOMED_PREFIX: Final = ".deleted-"
#: of pathlib too, which makes one slash of two
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_TASK: Final = re.compile(r"\d+_\d+")

#: the device and the number of a file: other than its path, it changes if the file is replaced
_Place: TypeAlias = tuple[int, int]

_open_directories: weakref.WeakSet[StateDirectory] = weakref.WeakSet()


class StateDirectory:
    """``<state_dir>/<application_id>``, locked for one slot from construction to ``close``.

    Raises StateDirectoryError, which names the holder, when another process has the slot; and when
    the directory cannot be written or belongs to someone else.

    >>> import tempfile
    >>> with StateDirectory(tempfile.mkdtemp(), "shop") as directory:
    ...     path = directory.task_path(TaskId(0, 3))
    >>> path.name
    '0_3'
    """

    def __init__(self, state_dir: Path | str, application_id: str, *, slot: int = 0) -> None:
        if not is_application_id(application_id):
            raise StateDirectoryError(
                f"{application_id!r} cannot name a directory: use letters, digits, '.', '_' and"
                " '-', not '.' first, at most 100 characters."
            )
        self.application_id = application_id
        self.slot = slot
        root = usable_directory(state_root(state_dir))
        self.path = usable_directory(root / application_id)
        _check_owner(self.path)
        self._holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        self._place = _place(self.path)
        self._task_places: dict[TaskId, _Place | None] = {}
        #: held files: the lock file, and the id file, in case the lock file is deleted
        self._held: dict[Path, int] = {}
        self._lock()
        try:
            _write_marker(self.path, {"application_id": application_id})
            self.instance_id = self._read_or_make_id()
            self._lock_and_keep(self._id_path)
            self._delete_leftovers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the slot free; idempotent. Close the tasks' databases first."""
        held, self._held = self._held, {}
        for file in held.values():
            os.close(file)

    @property
    def is_open(self) -> bool:
        """Until it is closed."""
        return self._lock_file is not None

    def check(self, open_tasks: Iterable[TaskId] = ()) -> None:
        """Look whether the directory is still the one that was opened; a few system calls.

        A lock file that was deleted is made and locked again. Raises StateDirectoryError where
        the directory, or that of one of ``open_tasks``, was deleted or replaced, and where another
        process has the slot by now.
        """
        for path, place in [
            (self.path, self._place),
            *((self.path / str(task), self._task_places.get(task)) for task in open_tasks),
        ]:
            if place is not None and _place(path) != place:
                raise StateDirectoryError(_describe_removed(path))
        for path, file in list(self._held.items()):
            held = os.fstat(file)
            if _place(path) != (held.st_dev, held.st_ino):
                del self._held[path]
                try:
                    self._lock_and_keep(path)
                    self._describe(path)
                finally:
                    os.close(file)
                _LOGGER.warning(
                    "%s was deleted or replaced while slot %d was in use; it was made again, and"
                    " the slot stays locked. Let nothing delete files below state_dir",
                    path,
                    self.slot,
                )

    # ------------------------------------------------------------------ tasks

    def task_path(self, task_id: TaskId) -> Path:
        """The directory of a task, made when missing."""
        path = self.path / str(task_id)
        usable_directory(path)
        _write_marker(path, {"application_id": self.application_id, "task": str(task_id)})
        self._task_places[task_id] = _place(path)
        return path

    def files_path(self, task_id: TaskId) -> Path:
        """Where a task's processors may keep files, made when missing; it goes with the rows."""
        path = self.task_path(task_id) / _FILES
        usable_directory(path)
        return path

    def use_task(self, task_id: TaskId) -> tuple[Path, TaskLock]:
        """The directory of a task, made when missing, and a lock that keeps it from removal.

        Release the lock when the task is closed.
        """
        path = self.path / str(task_id)
        return path, use(lambda: self.task_path(task_id))

    def tasks(self) -> list[TaskId]:
        """Return the tasks that have a directory here, used or not; none if it was deleted."""
        try:
            names = [entry.name for entry in self.path.iterdir() if entry.is_dir()]
        except FileNotFoundError:
            return []  # `check` reports it
        return sorted(TaskId.parse(name) for name in names if _TASK.fullmatch(name))

    def delete_task(self, task_id: TaskId) -> None:
        """Delete a task's rows; its changelogs rebuild them. The task must be closed.

        Raises StateDirectoryError for a directory that is not ours.
        """
        path = self.path / str(task_id)
        if path.is_dir():
            _check_marker(path)
            shutil.rmtree(path.rename(self.path / f"{_DOOMED_PREFIX}{task_id}-{uuid.uuid4().hex}"))

    def is_task_used(self, task_id: TaskId) -> bool:
        """Whether a worker of any slot has the task or a standby of it open."""
        with exclusive_lock(self.path / str(task_id)) as is_unused:
            return not is_unused

    def remove_unused(self, task_id: TaskId) -> bool:
        """Delete a task's rows unless a worker has them open; whether they were deleted.

        Raises StateDirectoryError for a directory that is not ours, OSError where the disk refuses.
        """
        path = self.path / str(task_id)
        doomed = self.path / f"{_DOOMED_PREFIX}{task_id}-{uuid.uuid4().hex}"
        with exclusive_lock(path) as is_unused:
            if not is_unused:
                return False
            _check_marker(path)
            path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)  # the next start deletes the rest
        return True

    def delete_tasks(self) -> None:
        """Delete the rows of every task here, those of other slots too.

        Raises StateDirectoryError, and deletes nothing, where an instance has one of the slots.
        """
        with ExitStack() as held:
            for file in sorted(self.path.glob("instance-*")):
                slot = file.stem.removeprefix("instance-")
                if slot != str(self.slot) and file.suffix in (".lock", ".id"):
                    held.callback(os.close, self._locked(file, slot))
            for task in self.tasks():
                self.delete_task(task)

    def quarantine_task(self, task_id: TaskId) -> Path:
        """Move a damaged task directory aside for examination; returns where it is now.

        Only the newest few are kept.
        """
        path = self.path / str(task_id)
        _check_marker(path)
        quarantine = self.path / _QUARANTINE
        usable_directory(quarantine)
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        try:
            target = path.rename(quarantine / f"{moment}-{task_id}")
        except OSError as error:
            raise _unusable(quarantine, error) from error
        for old in sorted(quarantine.iterdir())[:-_QUARANTINED_MAX]:
            shutil.rmtree(old, ignore_errors=True)  # other workers delete the same ones
        return target

    # ------------------------------------------------------------------ lock and identity

    def _lock(self) -> None:
        self._lock_and_keep(self._lock_path)
        _open_directories.add(self)
        self._describe(self._lock_path)

    @property
    def _lock_file(self) -> int | None:
        return self._held.get(self._lock_path)

    @property
    def _lock_path(self) -> Path:
        return self.path / f"instance-{self.slot}.lock"

    @property
    def _id_path(self) -> Path:
        return self.path / f"instance-{self.slot}.id"

    def _lock_and_keep(self, path: Path) -> None:
        self._held[path] = self._locked(path, str(self.slot))

    def _describe(self, path: Path) -> None:
        """Write the content of a held file: who holds the slot, or the id of the slot."""
        text = self.instance_id if path == self._id_path else json.dumps(self._holder)
        os.ftruncate(self._held[path], 0)
        os.pwrite(self._held[path], text.encode(), 0)

    def _locked(self, path: Path, slot: str) -> int:
        try:
            lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            said = os.read(lock_file, 4096)
            os.close(lock_file)
            holder = holder_of_id(path) if path.suffix == ".id" else holder_of_lock(said, path)
            raise StateDirectoryError(
                f"{self.path} is in use: slot {slot} of application {self.application_id!r} is held"
                f" by {holder}. Two instances cannot share it. Stop the other one,"
                " or give this one its own state_dir."
            ) from error
        return lock_file

    def _read_or_make_id(self) -> str:
        path = self._id_path
        try:
            return str(uuid.UUID(path.read_text().strip()))
        except FileNotFoundError:
            pass
        except ValueError:
            pass  # torn by a power cut: a new id costs a restore, not data
        except OSError as error:
            raise _unusable(path, error) from error
        made = str(uuid.uuid4())
        _replace(path, made)
        return made

    def _delete_leftovers(self) -> None:
        """Finish what a crash left half deleted; another slot may do the same at this moment."""
        for entry in self.path.glob(f"{_DOOMED_PREFIX}*"):
            shutil.rmtree(entry, ignore_errors=True)


def state_root(given: object) -> Path:
    """``state_dir`` as an absolute path; ``~`` is the user's home. Raises ConfigError.

    Refuses values that would name an unintended directory: other types, addresses, variables that
    no shell has replaced.

    >>> str(state_root("/var/lib/../lib/shop"))
    '/var/lib/shop'
    """
    example = "Give the path of a local directory, such as '/var/lib/shop'"
    if not isinstance(given, (str, os.PathLike)) or isinstance(os.fspath(given), bytes):
        raise ConfigError(f"state_dir must be a path; got {shown(given)}. {example}")
    text = os.fspath(given)
    if "\0" in text:
        raise ConfigError(
            f"state_dir must be a path; {text!r} contains a NUL character, which no path can"
            f" contain. {example}"
        )
    if not text or text != text.strip():
        raise ConfigError(
            f"state_dir must be a path without blanks around it; got {text!r}. {example}"
        )
    if _ADDRESS.match(text):
        raise ConfigError(
            f"state_dir must be a path of this machine, not an address; got {text!r}. {example}"
        )
    if "$" in text or "%" in text:
        raise ConfigError(
            f"state_dir={text!r} has a variable in it, and no shell fills it in here. Write"
            f" os.path.expandvars({text!r})"
        )
    try:
        path = Path(text).expanduser()
        if path.is_symlink() and not path.exists():
            raise ConfigError(
                f"state_dir={text!r} is a symbolic link to {path.readlink()}, which does not exist."
                " Is its disk mounted? Mount it, or make the directory"
            )
        return path.resolve()
    except (OSError, RuntimeError, UnicodeError) as error:
        raise ConfigError(
            f"state_dir={text!r} cannot be resolved: {text_of(error)}. {example}"
        ) from error


def usable_directory(path: Path) -> Path:
    """The directory itself, made when missing. Raises StateDirectoryError where it cannot be."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    if path.is_symlink():
        raise StateDirectoryError(
            f"{path} is a symbolic link. State is kept in real directories only, because everything"
            " deleted here must be ours: set state_dir to the link's target."
        )
    return path


def _place(path: Path) -> _Place | None:
    """None where there is nothing."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _describe_removed(path: Path) -> str:
    what = "deleted" if _place(path) is None else "deleted and made again, or replaced,"
    return (
        f"{path} was {what} while the application uses it: its open files have no directory entry"
        " any more, and writes to them are lost. Likely a job that cleans temporary files,"
        " a volume that was unmounted, or somebody removed it by hand. Nothing that is"
        " committed is lost but the rows of stores without a changelog. Set state_dir to a place"
        " that nothing cleans, and start again: the state is restored from the changelogs."
    )


def _check_owner(path: Path) -> None:
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise StateDirectoryError(
            f"{path} belongs to user {status.st_uid}, this process runs as {os.geteuid()}. Likely"
            " the application ran as another user before: change the owner, or set state_dir."
        )
    if status.st_mode & 0o077:
        path.chmod(0o700)  # it holds the data of the input topics


def _write_marker(path: Path, whose: dict[str, Any]) -> None:
    marker = path / MARKER
    try:
        found = json.loads(marker.read_text())
    except (FileNotFoundError, ValueError):
        _replace(marker, json.dumps({"format": _FORMAT, **whose}))
        return
    except OSError as error:
        raise _unusable(marker, error) from error
    marked = found if isinstance(found, dict) else {}
    if marked.get("format") != _FORMAT or any(marked.get(k) != v for k, v in whose.items()):
        raise StateDirectoryError(
            f"{path} is not this application's: its marker {MARKER} says {found}, expected"
            f" {whose} in format {_FORMAT}. It was made by another version or application, or moved"
            " here by hand: set another state_dir. These files are not needed for that, except for"
            " stores without a changelog, whose only rows these may be."
        )


def _check_marker(path: Path) -> None:
    if not (path / MARKER).is_file() and any(path.iterdir()):
        raise StateDirectoryError(
            f"{path} has no {MARKER}, so it was not made by this library and is not touched."
            " Remove it by hand if it is in the way."
        )


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        fresh.write_text(text)
        fresh.replace(path)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StateDirectoryError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StateDirectoryError(too_few_files(f"{path} cannot be used for state", error))
    return StateDirectoryError(
        f"{path} cannot be used for state: {error.strerror or error}. The directory must exist or"
        " be creatable, on a local disk that is not full, and writable by the user that runs the"
        " application. Set state_dir to such a place."
    )


def _close_copies() -> None:
    """In a forked process: its copy of the file would keep the lock when the owner is gone."""
    for directory in list(_open_directories):
        directory.close()


os.register_at_fork(after_in_child=_close_copies)
