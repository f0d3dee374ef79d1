"""The error for too few open files, wherever it is noticed."""

from __future__ import annotations

import resource
from pathlib import Path

#: of a task whose stores are on disk, when it has many rows: see the options of RocksDB
FILES_OF_A_TASK = 256


def too_few_files(what: str, error: object) -> str:
    """The message, with the limit and how many there are. It needs no file itself.

    >>> "ulimit -n" in too_few_files("a task cannot be opened", "Too many open files")
    True
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"{what}: this process may have {_shown(soft)} files open{_used()}, and needs more"
        f" ({error}). Nothing is damaged, and nothing need be deleted. A task takes about 20 files,"
        f" up to {FILES_OF_A_TASK} with many rows, and each broker a socket or more. Raise the"
        f" limit: `ulimit -n 65536` before the start (allowed now: {_shown(hard)}),"
        " LimitNOFILE= of a systemd unit, --ulimit nofile= of Docker; or spread the tasks over more"
        " instances."
    )


def is_too_few_files(text: str) -> bool:
    """Whether the text of an error is about too many open files."""
    return "Too many open files" in text or "Too many files open" in text


def _shown(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else str(limit)


def _used() -> str:
    try:
        return f" and has {len(list(Path('/proc/self/fd').iterdir()))}"
    except OSError:
        return ""  # opening a file failed, or /proc does not exist
