"""How long tests wait for what has to come: as long as only a failure lasts.

A test says what it waits for, never how long: what a quiet machine does in a second may take a
busy one a minute. `until` returns as soon as it is so, so the patience costs nothing but where
nothing comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

#: well below the time-out of a test (pyproject.toml), so that what failed to come is named
PATIENCE_S = 180.0
_LOOK_S = 0.02

T = TypeVar("T")


def until(is_so: Callable[[], T], what: str | Callable[[], str] = "it does not become true") -> T:
    """What ``is_so`` answered when it was true first; AssertionError, with ``what``, if never."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := is_so()):
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(_LOOK_S)
    return answer
