"""Bugs of several aggregates as one record."""

from __future__ import annotations

from logstate.topology.dsl.aggregate_plan import AggregatePlan
from logstate.topology.dsl.numeric_aggregates import Count
from tests.campaigns.simulation.planted.bug import Patch, bug
from tests.campaigns.simulation.planted.edit import edit


@bug
def sessions_that_merge_keep_the_aggregates_of_the_earlier_one(patch: Patch) -> None:
    """The row of a session that joins another one is lost."""
    edit(patch, AggregatePlan, "merger", "merge(a, b)", "a")


@bug
def a_count_of_a_field_counts_nulls(patch: Patch) -> None:
    """A record in which the field is None is counted."""
    edit(patch, Count, "__init__", "self.counts_records = field is None", "self.counts_records = 1")
