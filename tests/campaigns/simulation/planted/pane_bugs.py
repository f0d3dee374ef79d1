"""Bugs of panes."""

from __future__ import annotations

from logstate.topology.operators.aggregates.panes import PaneRowSerde, PanesNode, _Panes
from tests.campaigns.simulation.idle_panes import IdlePanes
from tests.campaigns.simulation.panes import Panes
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit, edit_clock, edit_once


@scenario_bug(Panes.of)
def the_number_of_panes_is_not_restored(patch: Patch) -> None:
    """A row that is read from its bytes begins with 0 again."""
    old = "return PaneRow(number,"
    edit(patch, PaneRowSerde, "deserializer", old, "return PaneRow(0,")


@scenario_bug(Panes.of)
def the_time_of_panes_begins_with_the_process(patch: Patch) -> None:
    """After a restart a late pane is early, and panes on time come later."""
    edit_clock(patch, PanesNode, "compile", "observed_cell(task, self.store.name)")


@scenario_bug(IdlePanes.of)
def panes_on_time_are_sent_once_per_process(patch: Patch) -> None:
    """A pane on time that an undone tick has sent is not sent again."""
    old = 'row = self._emit_due(key, row, "on_time", timestamp, headers)'
    edit_once(patch, _Panes, "_run", old, "key")


@bug
def windows_do_not_close_with_their_panes(patch: Patch) -> None:
    """A tick deletes the row of a window that still takes records, and numbers begin again."""
    old = "close_windows(task, (self.window_clock,), time)"
    edit(patch, PanesNode, "_compile_idle_clock", old, "pass")


@scenario_bug(IdlePanes.of)
def a_tick_of_panes_has_its_own_stream_time(patch: Patch) -> None:
    """A tick advances another clock than the updates do."""
    old, new = "self.store.name, observed,", "self.store.name, type(observed)(),"
    edit(patch, PanesNode, "_compile_idle_clock", old, new)


@bug
def rows_of_panes_that_are_deleted_later_are_open(patch: Patch) -> None:
    """On idle inputs, time advances to the end of the grace, and late panes are dropped."""
    edit(patch, _Panes, "_times", "if self._end_of(timer[1]) > now", "if True")
