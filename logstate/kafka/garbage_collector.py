"""Memory around the client: Python's collector of garbage, and what the C library keeps of it.

The collector rests while the client hands over thousands of messages at once.

Every thread of a client allocates from an arena of glibc. What it frees stays in that arena, which
the next client may not use: a process that made clients again and again grew by 5 MB a minute. So
it is given back to the operating system.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

#: It looks at every free block: a millisecond in a small process, 100 in a large one. At most so
#: much of the time.
_SHARE_MAX = 0.05


@contextmanager
def gc_disabled() -> Iterator[None]:
    """For some milliseconds in which thousands of objects are made, none of them in a circle.

    The collector would look at all of them again and again, which takes a quarter of a read.
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
    """Gives it back, unless that was done so lately that it would take much of the time."""

    def __init__(self) -> None:
        self._next_s = float("-inf")

    def give_back(self) -> None:
        """Call it after a client was closed. Does nothing where the C library is not glibc."""
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
