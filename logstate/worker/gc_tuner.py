"""Run Python's cyclic garbage collector rarely while a worker runs.

By default a young collection follows every 700 new containers. A worker creates thousands per poll
(fetched records, rows, results) and keeps many until the next commit, so collections find nothing,
move the kept objects into the older generations, and traverse those again and again. Measured,
count and sum per key, the engine's own CPU time per record: 2.4 us with the default, 1.5 us with
50,000; with 100,000 keys and a commit per second, the process's CPU time per record: 4.0 us with
50,000, 3.6 us with 400,000, which no commit of that size reaches.

Records, rows and results have no cycles and are freed by reference counting. The collector is for
objects of user code, and still runs when 400,000 more containers were created than freed: less than
100 MB of objects of common sizes.

The setting applies to the process. It is changed while a worker runs and restored by the last one,
and left unchanged if the process has raised it already, or has disabled the collector.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_MAX = 400_000


class GcTuner:
    """Tunes one process; ``young_max`` new containers start a young collection."""

    def __init__(self, young_max: int = _YOUNG_MAX) -> None:
        self._young_max = young_max
        self._lock = threading.Lock()
        self._users = 0
        self._before: tuple[int, int, int] | None = None

    @contextmanager
    def rare(self) -> Iterator[None]:
        """Collect rarely inside the context; any number of threads may be inside at once."""
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
        if 0 < young < self._young_max:  # 0 means disabled
            self._before = (young, middle, old)
            gc.set_threshold(self._young_max, middle, old)

    def _restore(self) -> None:
        before, self._before = self._before, None
        # Keep a setting that other code has made meanwhile.
        if before is not None and gc.get_threshold() == (self._young_max, *before[1:]):
            gc.set_threshold(*before)


#: the tuner of this process
gc_tuner = GcTuner()
