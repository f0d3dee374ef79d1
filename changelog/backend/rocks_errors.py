"""Translate RocksDB's errors: they have no type, so they are distinguished by their text."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import NoReturn

from logstate.contracts.errors import (
    DirectoryInUseError,
    StateDirectoryError,
    StoreCorruptedError,
    StoreError,
    StoreUnavailableError,
)

#: of a task whose stores are on disk, when it has many rows: see the options of RocksDB
FILES_OF_A_TASK = 256


def too_few_files(what: str, error: object) -> str:
    """The message, with the limit and how many there are. It needs no file itself.

    >>> "ulimit -n" in too_few_files("a task cannot be opened", "Too many open files")
    True
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"{what}: this process may have {_limit_text(soft)} files open{_open_files()}, and needs"
        " more"
        f" ({error}). Nothing is damaged, and nothing need be deleted. A task takes about 20 files,"
        f" up to {FILES_OF_A_TASK} with many rows, and each broker a socket or more. Raise the"
        f" limit: `ulimit -n 65536` before the start (allowed now: {_limit_text(hard)}),"
        " LimitNOFILE= of a systemd unit, --ulimit nofile= of Docker; or spread the tasks over more"
        " instances."
    )


def is_too_few_files(text: str) -> bool:
    """Whether the text of an error is about too many open files."""
    return "Too many open files" in text or "Too many files open" in text


def _limit_text(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else str(limit)


def _open_files() -> str:
    try:
        return f" and has {len(list(Path('/proc/self/fd').iterdir()))}"
    except OSError:
        return ""  # opening a file failed, or /proc does not exist


class ClosedDatabase:
    """Replaces a closed database: every use raises."""

    def __init__(self, path: Path, *, is_forked: bool = False) -> None:
        self._path = path
        self._is_forked = is_forked

    def _refuse(self, *_: object) -> NoReturn:
        if self._is_forked:
            raise StoreError(
                f"{self._path} was opened before this process forked. RocksDB's threads do not"
                " exist in a forked child. Start processes with the 'spawn' method."
            )
        raise closed_error(self._path)

    get = write = snapshot = iter = flush = __getitem__ = _refuse


def threads_missing(path: Path) -> StoreError:
    """The error of a process that was forked from one that had databases open."""
    return StoreError(
        f"{path} cannot be opened: the process that this one was forked from had used RocksDB,"
        " whose threads do not exist here, and every write would wait for ever. Fork before the"
        " first application or driver with a state_dir starts, or start processes with the 'spawn'"
        " method."
    )


def closed_error(path: Path) -> StoreUnavailableError:
    """The error of a reader that comes too late."""
    return StoreUnavailableError(
        f"{path} was closed while it was being read: its partition moved or the application is"
        " closing. Look up the store's owner and repeat the query."
    )


def explained(error: Exception, path: Path, action: str) -> Exception:
    """The library's error for one of RocksDB's, which have no type but only a text."""
    text = str(error)
    if isinstance(error, StoreError):
        return error
    if is_too_few_files(text):  # first: it may be the file LOCK that cannot be opened
        return StoreError(too_few_files(f"Could not {action} {path}", text))
    if "Permission denied" in text or "Read-only file system" in text:
        return StateDirectoryError(
            f"Could not {action} {path}: no permission ({text}). The directory must be writable"
            " by the user that runs the application."
        )
    if "lock hold" in text or ("LOCK" in text and action == "open"):
        return DirectoryInUseError(
            f"Could not {action} {path}: the database is open elsewhere ({text}). Another process,"
            " or another worker that still closes it, uses this directory. Give every instance its"
            " own state_dir, or wait for the other to end."
        )
    is_missing = action == "open" and "No such file or directory" in text
    if "Corruption" in text or "does not exist (create_if_missing is false)" in text or is_missing:
        return StoreCorruptedError(
            f"Could not {action} {path}: its files are damaged ({text}). Likely a disk fault, or"
            " a file was changed or removed by hand. It is rebuilt from the changelog, and kept in"
            " the quarantine directory.",
            path,
        )
    if "No space left" in text or "File too large" in text or "Disk quota exceeded" in text:
        return StoreError(
            f"Could not {action} {path}: the disk is full, or a limit is reached ({text}). Free"
            " space and start again. Nothing committed is lost: the changelog holds it."
        )
    if "previous error" in text:  # that write was RocksDB's own, so its error was not raised
        return StoreError(
            f"Could not {action} {path}: an earlier write to its files had failed ({text}). Likely"
            " the disk is full, or was for a while. Free space and start again. Nothing committed"
            " is lost: the changelog holds it."
        )
    return StoreError(
        f"Could not {action} {path}: {type(error).__name__}: {text}. Likely the disk or a limit of"
        " the system; see its log, and start again. If it comes back here only, stop the"
        " application: deleting this directory restores stores from their changelogs, and loses the"
        " rows of stores that have none."
    )
