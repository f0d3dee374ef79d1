"""Bugs of distinct records."""

from __future__ import annotations

from logstate.topology.operators.streams.distinct import DistinctNode
from tests.campaigns.simulation.distinct_records import DistinctRecords
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(DistinctRecords.of)
def distinct_records_are_remembered_by_the_process(patch: Patch) -> None:
    """A restart forgets which keys were seen."""
    seen = "seen = first.__dict__.setdefault('seen', set())\n        "
    new = f"{seen}if same in seen or seen.add(same)"
    edit(patch, DistinctNode, "_compile_first", "if read(same) is not None", new)


@scenario_bug(DistinctRecords.of)
def the_clock_of_distinct_windows_is_remembered_by_the_process(patch: Patch) -> None:
    """After a restart late records of closed windows are forwarded."""
    old = 'observed = task.time_cell(f"observed:{name}")'
    edit(patch, DistinctNode, "_compile_windows", old, 'observed = type(task.time_cell("clock"))()')
