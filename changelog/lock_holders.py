"""Which processes hold the lock files of a state directory, for messages."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path


def holder_of_lock(said: bytes, path: Path) -> str:
    """Return the holder of a lock: from its file, or from the system if that is another process.

    A process that was forked without Python keeps the lock when the one that took it is gone.
    """
    try:
        found = json.loads(said)
        pid, host = int(found["pid"]), found["host"]
        text = f"process {pid} on host {host} since {found['since']}"
    except (ValueError, KeyError, TypeError):
        pid, host, text = None, socket.gethostname(), "another process"
    holders = _holders(path) if host == socket.gethostname() else []
    if not holders or pid in holders:
        return text
    true = " and ".join(f"process {holder} ({_program(holder)})" for holder in holders)
    return f"{true} on host {host}; the lock was taken by {text}, which is gone and left it to them"


def holder_of_id(path: Path) -> str:
    """Who holds a slot whose lock file could be locked: it was deleted and made again."""
    names = [f"process {holder} ({_program(holder)})" for holder in _holders(path)]
    return f"{' and '.join(names) or 'another instance'}, whose lock file was deleted"


def _holders(path: Path) -> list[int]:
    """The processes that have a file open, as far as this one may see (Linux)."""
    holders = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [_target(fd) for fd in (process / "fd").iterdir()]
        except OSError:
            continue  # it has ended, or is another user's
        if str(path) in files and process.name != str(os.getpid()):
            holders.append(int(process.name))
    return sorted(holders)


def _target(link: Path) -> str:
    """Return the link's target; empty if its process has closed that file meanwhile."""
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return ""


def _program(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return b" ".join(words).decode(errors="replace").strip()[:100]
