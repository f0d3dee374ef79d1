"""A lock on the directory of a task, shared by its users.

Workers of one application share a state directory, and a directory whose task is elsewhere is
removed after a while. A task and a standby hold the lock while they are open; removal needs it
exclusively. The lock ends with its process, in every case.

Between the moment in which a directory is found and the one in which it is locked it may be renamed
by its removal. So the lock is valid only if the path still leads to the locked directory.

Invariants:
1. a directory is renamed only by who has its lock alone;
2. a lock is handed out only for a directory that is in its place after the locking.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_held: weakref.WeakSet[TaskLock] = weakref.WeakSet()


class TaskLock:
    """The use of a directory, until it is released."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file
        _held.add(self)

    def release(self) -> None:
        """The directory is not used any more; idempotent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def use(make: Callable[[], Path]) -> TaskLock:
    """Use a directory together with others; ``make`` makes it when missing, and returns its path.

    Waits where it is just being removed, which takes no longer than renaming it.
    """
    while True:
        path = make()
        file = _open_file(path)
        if file is None:
            continue
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_at(file, path):
            return TaskLock(file)
        os.close(file)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[bool]:
    """Whether the directory is unused; if so, it stays unused until the end of the block."""
    file = _open_file(path)
    if file is None:
        yield False
        return
    try:
        yield _locked_alone(file) and _is_at(file, path)
    finally:
        os.close(file)


def _open_file(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def _locked_alone(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), found)


def _release_copies() -> None:
    """In a forked process: its copies would keep the locks when their owner is gone."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_copies)
