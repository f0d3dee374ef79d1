"""What the operators of a task have open: looked at a few times a minute, for metrics and /status.

A look runs on the thread of the task, between two batches, and changes nothing. The last result can
be read from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from logstate.contracts.open_rows import LookAtOpen, OpenRows, joined

_LOGGER = logging.getLogger(__name__)

#: between two looks at the least
_LOOK_MS: Final = 10_000.0
#: a look that took long is repeated later: it takes at most a thousandth of the time
_SHARE: Final = 1_000


class OpenOperators:
    """The operators of one task in which something waits for stream time.

    >>> from logstate.contracts.open_rows import open_rows
    >>> operators, rows = OpenOperators(), [8_000]
    >>> operators.add("counts", lambda: open_rows(rows, 5_000))
    >>> operators.look(lambda: 0.0)["counts"]
    OpenRows(total=1, next_ms=8000, stream_time_ms=5000)
    >>> rows.append(9_000)
    >>> operators.look(lambda: 9_999.0)["counts"].total, operators.look(lambda: 10_000.0)
    (1, {'counts': OpenRows(total=2, next_ms=8000, stream_time_ms=5000)})
    """

    def __init__(self) -> None:
        self._looks: dict[str, list[LookAtOpen]] = {}
        self._again_ms = float("-inf")
        #: node -> what the last look found, replaced as a whole
        self.latest: Mapping[str, OpenRows] = {}

    def add(self, node: str, look: LookAtOpen) -> None:
        """Register a part of an operator."""
        self._looks.setdefault(node, []).append(look)

    def clear(self) -> None:
        """Forget the operators: they are compiled again."""
        self._looks.clear()
        self._again_ms = float("-inf")

    def look(self, monotonic_ms: Callable[[], float]) -> Mapping[str, OpenRows]:
        """Return what is open, which is looked at again if that is due."""
        if self._looks and (began_ms := monotonic_ms()) >= self._again_ms:
            self.latest = self._look()
            took_ms = monotonic_ms() - began_ms
            self._again_ms = began_ms + max(_LOOK_MS, _SHARE * took_ms)
        return self.latest

    def _look(self) -> dict[str, OpenRows]:
        found = {}
        for node, looks in self._looks.items():
            try:
                found[node] = joined(look() for look in looks)
            except Exception:
                _LOGGER.debug("what %s has open cannot be read", node, exc_info=True)
        return found
