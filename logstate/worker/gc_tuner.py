"""How often Python looks for cyclic garbage while a worker runs: rarely.

By default a young collection comes after every 700 new containers. A worker makes thousands per
poll (fetched records, rows, results) and keeps many until the next commit, so collections find
nothing, move what is kept into the older generations, and walk through those again and again.
Measured, count and sum per key, the engine's own CPU time per record: 2.4 us with the default,
1.5 us with 50,000; with 100,000 keys and a commit per second, the process's CPU time per record:
4.0 us with 50,000, 3.6 us with 400,000, which no commit of that size reaches.

Records, rows and results hold no cycles and go away by themselves; the collector is for what user
code makes, and still comes, after 400,000 containers more than were freed: less than 100 MB of
objects of common sizes.

The setting belongs to the process. It is changed while a worker runs and put back by the last one,
and left alone where the process has raised it already, or switched the collector off.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_MAX = 400_000


class GcTuner:
    """The pace of one process; ``young_max`` new containers make a young collection."""

    def __init__(self, young_max: int = _YOUNG_MAX) -> None:
        self._young_max = young_max
        self._lock = threading.Lock()
        self._users = 0
        self._before: tuple[int, int, int] | None = None

    @contextmanager
    def rare(self) -> Iterator[None]:
        """Collect rarely inside; any number of threads may be inside at once."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._slow_down()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._restore()

    def _slow_down(self) -> None:
        young, middle, old = gc.get_threshold()
        if 0 < young < self._young_max:  # 0 is off
            self._before = (young, middle, old)
            gc.set_threshold(self._young_max, middle, old)

    def _restore(self) -> None:
        before, self._before = self._before, None
        # Somebody else's setting, made meanwhile, stays.
        if before is not None and gc.get_threshold() == (self._young_max, *before[1:]):
            gc.set_threshold(*before)


#: the one of this process
gc_tuner = GcTuner()
