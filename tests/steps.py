"""What something costs, in steps: bytecodes, and comparisons of keys, which C makes.

A step takes the same on every machine.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_COMPARISONS = {"__lt__", "__gt__", "__le__", "__ge__"}


@contextmanager
def nothing_collected() -> Iterator[None]:
    """A collection calls what others have left to be called: none inside."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Steps:
    """What was counted."""

    compared = 0
    executed = 0

    @property
    def total(self) -> int:
        return self.compared + self.executed

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done inside."""
        self.compared = self.executed = 0
        before = sys.gettrace()
        with nothing_collected():
            sys.settrace(self._trace)
            try:
                yield
            finally:
                sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_globals.get("__name__") == __name__ and frame.f_code.co_name in _COMPARISONS:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self.executed += event == "opcode"
        return self._trace


STEPS = Steps()


class CountedKey(bytes):
    """A row key that counts how often it is compared by order."""

    def __lt__(self, other: bytes) -> bool:
        STEPS.compared += 1
        return bytes.__lt__(self, other)

    def __gt__(self, other: bytes) -> bool:
        STEPS.compared += 1
        return bytes.__gt__(self, other)

    def __le__(self, other: bytes) -> bool:
        STEPS.compared += 1
        return bytes.__le__(self, other)

    def __ge__(self, other: bytes) -> bool:
        STEPS.compared += 1
        return bytes.__ge__(self, other)
