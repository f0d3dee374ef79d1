"""The file ``CURRENT`` of a view: which version is the newest, and how far it got.

It is replaced by an atomic rename, after what it names is complete and on the disk, so a reader
sees a whole version or the next one, after a power cut too.

Writers of one machine take turns (``locked``), where the system has locks of files. Those of other
machines are found out: who publishes compares what is there with what it began with.
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
#: what file systems say that can bring no directory onto the disk, or no file of another user
_NOT_HERE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM})


class CurrentFile:
    """The one of a view's directory. ``positions`` are by partition, whose numbers are text there.

    >>> CurrentFile(Path("/data/spend")).read() is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Any] | None:
        """What was published last, or None before the first batch."""
        try:
            found = json.loads((self.folder / _NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found["positions"] = {int(n): position for n, position in found["positions"].items()}
        return dict(found)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for other writers of this machine, and let them wait."""
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
        """Directories that are written here, and that nothing names yet; those that fail go."""
        try:
            yield
        except BaseException:
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)
            raise

    def sync(self, *directories: Path) -> None:
        """Bring directories and their files onto the disk, before something names them."""
        for directory in directories:
            for folder, _, names in os.walk(directory):
                for path in (*(Path(folder, name) for name in names), Path(folder)):
                    _sync(path)
        _sync(self.folder)

    def publish(self, state: Mapping[str, Any]) -> None:
        """Replace it, on the disk before this returns."""
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
        """The error of a read before the first batch."""
        return FileNotFoundError(
            f"{self.folder} holds no view yet; has the streaming query finished its first batch?"
        )

    def check_unchanged(self, read: Any, found: Any) -> None:
        """Raises StoreAccessError if what a writer began with is not the newest any more."""
        if found == read:
            return
        began, newest = (
            "no version" if state is None else f"version {state.version} (batch {state.batch_id})"
            for state in (read, found)
        )
        raise StoreAccessError(
            f"{self.folder} was at {began} when this writer began and is at {newest} now, so"
            " nothing was published: another writer is at work, a second query into this directory"
            " or compact() on another machine. A batch is repeated when its query is started"
            " again, and compact() has to be run again; give each query a directory of its own"
        )


def new_part() -> str:
    """A part of a directory's name that no other writer's has.

    >>> new_part() == new_part()
    False
    """
    return uuid.uuid4().hex[:12]


def _sync(path: Path) -> None:
    """Bring a file or the names in a directory onto the disk, where the system can do that."""
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
