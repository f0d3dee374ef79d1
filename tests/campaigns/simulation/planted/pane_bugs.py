"""Bugs of panes."""

from __future__ import annotations

from logstate.topology.operators.aggregates.panes import PaneRowSerde, PanesNode
from tests.campaigns.simulation.panes import Panes
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(Panes.of)
def the_number_of_panes_is_not_restored(patch: Patch) -> None:
    """A row that is read from its bytes begins with 0 again."""
    old = "return PaneRow(number,"
    edit(patch, PaneRowSerde, "deserializer", old, "return PaneRow(0,")


@scenario_bug(Panes.of)
def the_time_of_panes_begins_with_the_process(patch: Patch) -> None:
    """After a restart a late pane is early, and panes on time come later."""
    old = "observed_cell(task, self.store.name)"
    edit(patch, PanesNode, "compile", old, 'type(task.time_cell("observed"))()')
