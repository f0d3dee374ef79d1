"""Print a comparison of two topologies, and map it to an exit status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich.table import Table

from logstate.cli.shared.printing import print_table, print_text
from logstate.contracts.compatibility import SpecChange, Verdict, worst
from logstate.topics import preview as previews

#: exit status of a comparison
STATUS: Final = {Verdict.SAME: 0, Verdict.COMPATIBLE: 0, Verdict.DECISION: 3, Verdict.REFUSED: 4}


def print_changes(changes: Iterable[SpecChange]) -> None:
    """Print changes as a table, the worst first."""
    found = sorted(changes, key=lambda change: -change.verdict)
    if not found:
        print_text("same: all stored data is read as before")
        return
    table = Table("verdict", "what", "part", "stored", "declared", "meaning", show_lines=True)
    for change in found:
        sides = ["" if side is None else str(side) for side in (change.stored, change.declared)]
        table.add_row(str(change.verdict), change.subject, change.part, *sides, change.meaning)
    print_table(table)


def for_programs(changes: Iterable[SpecChange]) -> dict[str, Any]:
    """Return changes as data for JSON."""
    found = list(changes)
    return {"verdict": str(worst(found)), "changes": previews.as_plain_data(found)}
