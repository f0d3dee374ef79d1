"""A small disk for one worker, which can be full.

As root it is a tmpfs of its own, and full means ENOSPC. Elsewhere it is a plain directory, and full
means that the worker may not make any file longer (RLIMIT_FSIZE: EFBIG).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

_SIZE = "192m"
_CHUNK = b"\0" * (1 << 20)


class Disk:
    """The directory ``path``; ``kind`` says how it is made full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self._is_mounted = _mounted(path)
        self.kind = "tmpfs" if self._is_mounted else "RLIMIT_FSIZE"

    def fill(self, pid: int) -> None:
        """Take all space away from the process."""
        if not self._is_mounted:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
            return
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(_CHUNK)

    def free(self, pid: int | None) -> None:
        """Give it back; ``pid`` None: the process is gone."""
        if self._is_mounted:
            self._filler.unlink(missing_ok=True)
        elif pid is not None:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def lose_everything(self) -> None:
        """The disk was replaced."""
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def close(self) -> None:
        """Unmount."""
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)
            self._is_mounted = False

    @property
    def _filler(self) -> Path:
        return self.path / "filler"


def unmount_below(path: Path) -> None:
    """Unmount the disks of a run that could not do so itself."""
    for disk in path.glob("disk-*"):
        if disk.is_mount():
            subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


def _mounted(path: Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
