"""Bugs of named cuts."""

from __future__ import annotations

from logstate.changelog.cuts import latest_cut, named_cuts
from logstate.changelog.cuts.cut_catalog import IncompleteCut
from logstate.changelog.cuts.cut_copies import CutCopies
from tests.campaigns.simulation.named_cuts import NamedCuts
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(NamedCuts.of)
def a_cut_is_kept_that_ends_before_what_replaced_its_records(patch: Patch) -> None:
    """Records were compacted while they were copied, and the newer ones are behind the cut."""
    old = "return end >= self._needed.get(log, 0) or not self._has_records(log, end)"
    edit(patch, CutCopies, "_copy", old, "return True")


@scenario_bug(NamedCuts.of)
def a_cut_is_the_end_of_the_log(patch: Patch) -> None:
    """What was written after the commit that a cut is of is copied, too."""
    old = "positions[tp.partition] = position"
    edit(patch, latest_cut, "ends_at_commits", old, f"{old} + (bounds[tp].stable_end > position)")


@scenario_bug(NamedCuts.of)
def the_claim_of_a_cut_stays_when_it_is_complete(patch: Patch) -> None:
    """The topic that says that somebody makes the cut is not deleted."""
    edit(patch, IncompleteCut, "complete", "self._shelf.release(self._claim)", "pass")


@scenario_bug(NamedCuts.of)
def the_copies_of_a_cut_expire(patch: Patch) -> None:
    """The topics of a cut have the retention of any topic."""
    kept = named_cuts._KEPT
    patch(named_cuts, "_KEPT", {key: kept[key] for key in kept if key != "retention.ms"})
