"""Numbers that distinguish the puts of one store: 1, 2, and so on, from 1 again after the last."""

from __future__ import annotations

from logstate.contracts.processing import TimeCell

_LAST = 0x7FFFFFFF


def next_number(cell: TimeCell) -> int:
    """Count one further; the cell keeps the number as state of the task.

    >>> cell = TimeCell()
    >>> next_number(cell), next_number(cell)
    (1, 2)
    """
    cell.time = (max(cell.time, 0) + 1) & _LAST
    return cell.time
