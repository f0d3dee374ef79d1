"""The file ``CURRENT`` of a view, which names the newest version and its positions.

An atomic rename replaces it after the files that it names are complete and on the disk, so a reader
sees one whole version or the next one, also after a power failure.

Writers on one machine take turns (``locked``) where the system has file locks. Writers on several
machines are detected: a writer publishes only if ``CURRENT`` has not changed since it began.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logstate.contracts.errors import StoreAccessError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NAME = "CURRENT"
_LOCK = "LOCK"
#: errors of file systems that cannot sync a directory, or a file of another user
_NOT_HERE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM})


class CurrentFile:
    """Reads and replaces ``CURRENT`` in a view's directory.

    Partition numbers in ``positions`` are strings in the file and integers here.

    >>> CurrentFile(Path("/data/spend")).read() is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Any] | None:
        """Return the newest published state, or None before the first batch."""
        try:
            found = json.loads((self.folder / _NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found["positions"] = {int(n): position for n, position in found["positions"].items()}
        return dict(found)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other writers on this machine; wait until they have finished."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _sync(self.folder.parent)
        with (self.folder / _LOCK).open("w") as file:
            if fcntl is not None:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def draft(self, *directories: Path) -> Iterator[None]:
        """Delete directories that are not published yet if the block raises an exception."""
        try:
            yield
        except BaseException:
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)
            raise

    def sync(self, *directories: Path) -> None:
        """Sync directories and their files to the disk, before they are published."""
        for directory in directories:
            for folder, _, names in os.walk(directory):
                for path in (*(Path(folder, name) for name in names), Path(folder)):
                    _sync(path)
        _sync(self.folder)

    def publish(self, state: Mapping[str, Any]) -> None:
        """Replace the file; it is on the disk when this returns."""
        positions = {str(n): position for n, position in sorted(state["positions"].items())}
        draft = self.folder / f"{_NAME}.draft-{new_part()}"
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump({**state, "positions": positions}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.folder / _NAME)
        finally:
            draft.unlink(missing_ok=True)
        _sync(self.folder)

    def missing(self) -> FileNotFoundError:
        """Return the error of a read before the first batch."""
        return FileNotFoundError(
            f"{self.folder} holds no view yet; has the streaming query finished its first batch?"
        )

    def check_unchanged(self, read: Any, found: Any) -> None:
        """Raise StoreAccessError if another writer has published since this one began."""
        if found == read:
            return
        began, newest = (
            "no version" if state is None else f"version {state.version} (batch {state.batch_id})"
            for state in (read, found)
        )
        raise StoreAccessError(
            f"{self.folder} was at {began} when this writer began and is at {newest} now, so"
            " nothing was published: another writer is active, a second query into this directory"
            " or compact() on another machine. A batch is repeated when its query is started"
            " again, and compact() has to be run again; give each query its own directory"
        )


def new_part() -> str:
    """Return a unique part for a directory's name.

    >>> new_part() == new_part()
    False
    """
    return uuid.uuid4().hex[:12]


def _sync(path: Path) -> None:
    """Sync a file or a directory to the disk, if the system supports it."""
    if os.name == "nt":
        return
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
