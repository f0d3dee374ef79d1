"""Bugs of late records as streams."""

from __future__ import annotations

from logstate.topology.operators.aggregates import window_aggregate
from logstate.topology.operators.streams import late_records
from logstate.topology.operators.tables import table_source
from logstate.topology.plan import compilation
from tests.campaigns.simulation.late_streams import LateStreams
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@bug
def a_late_stream_gets_the_results_too(patch: Patch) -> None:
    """The node of a late stream is called with the results of its operator."""
    edit(patch, compilation, "_compile_node", "if name != node.late", "if name")


@scenario_bug(LateStreams.of)
def late_records_are_emitted_once_per_process(patch: Patch) -> None:
    """A late record that was emitted by an attempt that an abort undid is not emitted again."""
    old = "        own = None"
    new = (
        "        sent = globals().setdefault('_sent', set())\n"
        "        if (mark := (name, repr(window), value)) in sent:\n"
        "            return\n"
        "        sent.add(mark)\n"
        "        own = None"
    )
    edit(patch, late_records, "late_output", old, new, also=window_aggregate)


@bug
def a_record_that_is_older_than_the_history_is_dropped(patch: Patch) -> None:
    """The store of a table drops it, although the table has a late stream."""
    old = "emit = late_output(node, children, DropReason.EXPIRED)"
    edit(patch, late_records, "expired_output", old, "emit = None", also=table_source)


@scenario_bug(LateStreams.of)
def lateness_is_measured_from_the_start_of_the_process(patch: Patch) -> None:
    """Stream time of a windowed aggregation begins again after a restart."""
    cls = window_aggregate.WindowAggregateNode
    old = "observed = stream_time_of(task, self.store.name, self.group_number, self.emit)"
    edit(patch, cls, "compile", old, "observed = TimeCell()")
