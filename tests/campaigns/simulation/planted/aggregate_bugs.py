"""Bugs of several aggregates as one record."""

from __future__ import annotations

from logstate.topology.dsl.aggregate_plan import AggregatePlan
from logstate.topology.dsl.numeric_aggregates import Count
from logstate.topology.dsl.sketches import ApproxCountDistinct, Quantile
from logstate.topology.dsl.value_aggregates import TopN
from tests.campaigns.simulation.aggregate_records import AggregateRecords
from tests.campaigns.simulation.planted.bug import Patch, bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@bug
def sessions_that_merge_keep_the_aggregates_of_the_earlier_one(patch: Patch) -> None:
    """The row of a session that joins another one is lost."""
    edit(patch, AggregatePlan, "merger", "merge(a, b)", "a")


@bug
def a_count_of_a_field_counts_nulls(patch: Patch) -> None:
    """A record in which the field is None is counted."""
    edit(patch, Count, "__init__", "self.counts_records = field is None", "self.counts_records = 1")


@scenario_bug(AggregateRecords.of)
def sessions_that_merge_keep_the_sketch_of_the_earlier_one(patch: Patch) -> None:
    """Values of the later session are not counted."""
    merged = "self._state(union.get_result(self._format))"
    edit(patch, ApproxCountDistinct, "merge", merged, "a")


@scenario_bug(AggregateRecords.of)
def the_values_of_a_quantile_are_kept_by_the_process(patch: Patch) -> None:
    """All groups have one sketch, and a restart begins with an empty one."""
    old = "self._sketch(self.k) if stored is None else self._sketch.deserialize(stored)"
    edit(patch, Quantile, "take", old, "self.__dict__.setdefault('all', self._sketch(self.k))")


@bug
def a_later_value_with_an_equal_key_comes_first(patch: Patch) -> None:
    """The order of ties depends on how many there are."""
    edit(patch, TopN, "take", "by(state[place - 1]) < key", "by(state[place - 1]) <= key")


@bug
def a_value_without_a_key_is_ranked(patch: Patch) -> None:
    """A value for which ``by`` returns None is compared with the others."""
    edit(patch, TopN, "take", "if key is None:", "if key is by:")
