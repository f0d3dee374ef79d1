"""How late windows in the backend can start: later ones need not be looked for there.

Rows reach the backend in layers, which are frozen before they are applied. So at every freeze the
clock of the store, the largest start put so far, is noted; what is applied afterwards starts no
later than the largest clock noted. The clock itself may go back (an abort, a rolled back record):
the note does not.

The rows tell it of freezes. Where they go back or expire the bound stays right.
"""

from __future__ import annotations

from logstate.changelog.rows.rows import RowMirror
from logstate.contracts.processing import TimeCell


class NewestStart(RowMirror):
    """No row of the backend starts later than ``in_backend``, as long as ``applied_total`` is how
    often rows were applied: otherwise call ``applied`` first. Read for every new window, hence not
    a method.
    """

    __slots__ = ("_cell", "_frozen", "applied_total", "in_backend")

    def __init__(self, cell: TimeCell, in_backend: int) -> None:
        self._cell = cell
        self._frozen = in_backend
        self.in_backend = in_backend
        self.applied_total = 0

    def applied(self, applied_total: int) -> None:
        """Rows were applied, all of them frozen before."""
        self.applied_total = applied_total
        self.in_backend = self._frozen

    def note(self, start_ms: int) -> None:
        """A row with this start may be applied from here on."""
        self._frozen = max(self._frozen, start_ms)

    def flush(self) -> None:
        """The rows are about to be frozen, or read."""
        self.note(self._cell.time)
