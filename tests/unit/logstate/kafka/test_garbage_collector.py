"""Memory that the arena of a thread keeps."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

from logstate.kafka.garbage_collector import FreeMemory

_BLOCKS, _BLOCK_BYTES = 3_000, 10_000


def resident_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def test_what_a_thread_has_freed_is_given_back() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = (ctypes.c_void_p,)
    last: list[int] = []

    def allocate() -> None:
        blocks = [library.malloc(_BLOCK_BYTES) for _ in range(_BLOCKS)]
        for block in blocks:
            ctypes.memset(block, 1, _BLOCK_BYTES)
        last.append(blocks.pop())  # it keeps the arena from shrinking by itself
        for block in blocks:
            library.free(block)

    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    before_mb = resident_mb()
    FreeMemory().give_back()
    assert resident_mb() < before_mb - 20
    library.free(last[0])
