"""CPU time and memory as /proc tells them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class MachineCpu(NamedTuple):
    """Seconds since the machine started."""

    busy_s: float
    #: taken by the host of a virtual machine
    stolen_s: float


def machine_cpu() -> MachineCpu:
    """What all processors of the machine have done so far."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(ticks) / _TICKS_PER_S for ticks in first.split()[1:9]
    )
    return MachineCpu(user + nice + system + irq + softirq, steal)


def process_tree(pid: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat_fields(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def tree_cpu_s(pid: int) -> float:
    """User and system time of a process tree, of its ended children too."""
    return sum(process_cpu_s(one) for one in process_tree(pid))


def process_cpu_s(pid: int) -> float:
    """User and system time of one process and its ended children."""
    fields = _stat_fields(pid)
    return sum(map(int, fields[11:15])) / _TICKS_PER_S if fields else 0.0


def thread_cpu_max_s(pid: int) -> float:
    """User and system time of the thread of a process tree that has used most."""
    most = 0
    for one in process_tree(pid):
        for stat in Path(f"/proc/{one}/task").glob("*/stat"):
            fields = _fields_of(stat)
            most = max(most, sum(map(int, fields[11:13])))
    return most / _TICKS_PER_S


def tree_rss_max_mb(pid: int) -> float:
    """The sum of the peaks of resident memory over a process tree."""
    return _tree_memory_mb(pid, "VmHWM")


def tree_rss_mb(pid: int) -> float:
    """Resident memory of a process tree as it is now."""
    return _tree_memory_mb(pid, "VmRSS")


def load_average() -> float:
    """Runnable processes, averaged over the last minute."""
    return os.getloadavg()[0]


def _tree_memory_mb(pid: int, field: str) -> float:
    kilobytes = 0
    for one in process_tree(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith(field):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024


def _stat_fields(pid: int) -> list[str]:
    return _fields_of(Path(f"/proc/{pid}/stat"))


def _fields_of(stat: Path) -> list[str]:
    """The fields behind the name, which may hold spaces; none if the process has ended."""
    try:
        text = stat.read_text(encoding="utf-8")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
