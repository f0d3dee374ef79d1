"""Memory around the client: Python's garbage collector, and memory that the C library keeps.

Garbage collection is disabled while the client returns thousands of messages at once.

Every thread of a client allocates from an arena of glibc. Freed memory stays in that arena, which
the next client may not use: a process that repeatedly created clients grew by 5 MB a minute. So it
is returned to the operating system.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

#: The call visits every free block: a millisecond in a small process, 100 in a large one. This is
#: its maximum share of the time.
_SHARE_MAX = 0.05


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection while thousands of objects without cycles are created.

    The collector would visit all of them repeatedly, which takes a quarter of a read.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class FreeMemory:
    """Returns free memory to the system, unless the last time was too recent."""

    def __init__(self) -> None:
        self._next_s = float("-inf")

    def give_back(self) -> None:
        """Return free memory after a client was closed; only glibc can do it."""
        began_s = time.monotonic()
        trim = _malloc_trim()
        if trim is not None and began_s >= self._next_s:
            trim(0)
            ended_s = time.monotonic()
            self._next_s = ended_s + (ended_s - began_s) / _SHARE_MAX


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # musl, macOS and Windows have none
        return None
    function.argtypes, function.restype = (ctypes.c_size_t,), ctypes.c_int
    return function
