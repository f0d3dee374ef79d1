"""Bugs of distinct and limited records, and of scans."""

from __future__ import annotations

from logstate.topology.operators.aggregates.scan import ScanNode
from logstate.topology.operators.streams.distinct import DistinctNode
from tests.campaigns.simulation.distinct_records import DistinctRecords
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit, edit_clock


@scenario_bug(DistinctRecords.of)
def distinct_records_are_remembered_by_the_process(patch: Patch) -> None:
    """A restart forgets which keys were seen."""
    seen = "seen = first.__dict__.setdefault('seen', set())\n        "
    new = f"{seen}if same in seen or seen.add(same)"
    edit(patch, DistinctNode, "_compile_first", "if read(same) is not None", new)


@scenario_bug(DistinctRecords.of)
def the_clock_of_distinct_windows_is_remembered_by_the_process(patch: Patch) -> None:
    """After a restart late records of closed windows are forwarded."""
    edit_clock(patch, DistinctNode, "_compile_windows", 'task.time_cell(f"observed:{name}")')


@scenario_bug(DistinctRecords.of)
def a_throttle_counts_in_the_process(patch: Patch) -> None:
    """A restart lets a window forward as many records again."""
    sent = "sent = first.__dict__.setdefault('sent', {})\n        "
    row = f"{sent}row = fetch(same, start) if (same, start) in sent else None"
    row += "\n        sent[same, start] = True"
    edit(patch, DistinctNode, "_compile_windows", "row = fetch(same, start)", row)


@scenario_bug(DistinctRecords.of)
def a_scan_does_not_delete_a_state(patch: Patch) -> None:
    """A state of None leaves the row, and the next record does not begin again."""
    old = "is_change = row is not None or state is not None"
    edit(patch, ScanNode, "compile", old, "is_change = state is not None")


@scenario_bug(DistinctRecords.of)
def a_scan_keeps_its_states_in_the_process(patch: Patch) -> None:
    """A restart forgets the states."""
    old = "row, newest = read(key), timestamp"
    new = (
        "states = process.__dict__.setdefault('states', {})\n        "
        "row, newest = read(key) if key in states else None, timestamp\n        states[key] = True"
    )
    edit(patch, ScanNode, "compile", old, new)
