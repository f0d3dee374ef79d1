"""Bugs of foreign-key joins, of global tables, and of source topics that are changelogs."""

from __future__ import annotations

from logstate.changelog.stores.subscription import SubscriptionStore
from logstate.queries.global_stores import GlobalStores
from logstate.restore import restore, restore_plan, task_rows
from logstate.testing import recovery_point
from logstate.topology.operators.joins import foreign_key_left
from logstate.topology.operators.joins.foreign_key_left import SubscriptionResolveNode
from logstate.topology.operators.joins.foreign_key_right import (
    SubscriptionReceiveNode,
    SubscriptionUpdateNode,
)
from tests.campaigns.simulation.foreign_keys import ForeignKeys
from tests.campaigns.simulation.planted.bug import Patch, bug, of_variant, rare_bug, scenario_bug
from tests.campaigns.simulation.planted.edit import edit


@scenario_bug(ForeignKeys.of)
def an_unsubscription_is_not_logged(patch: Patch) -> None:
    """After a restore a foreign key answers those who left it."""
    old = "self._write(foreign_key, subscription, None)"
    new = "self._rows.put(self._encode_key((foreign_key, subscription.primary_key)), None)"
    edit(patch, SubscriptionStore, "delete", old, new)


@scenario_bug(ForeignKeys.of)
def the_old_foreign_key_stays_subscribed(patch: Patch) -> None:
    """Who changes its foreign key is told of both."""
    old = "send(held, Instruction.UNSUBSCRIBE, *row)"
    edit(patch, foreign_key_left, "_left_changes", old, "pass")


@scenario_bug(ForeignKeys.of)
def a_stale_answer_is_joined(patch: Patch) -> None:
    """An answer to a row that has changed since becomes a result."""
    old = "not is_current(key, left, row_hash)"
    edit(patch, SubscriptionResolveNode, "compile", old, "False")


@scenario_bug(ForeignKeys.of)
def only_the_first_subscriber_is_told(patch: Patch) -> None:
    """A right row that changes tells one left row of it."""
    old = "in subscribers(key):"
    edit(patch, SubscriptionUpdateNode, "compile", old, "in list(subscribers(key))[:1]:")


@scenario_bug(ForeignKeys.of)
def an_answer_comes_before_its_subscription(patch: Patch) -> None:
    """Who subscribes is answered and not kept."""
    old = "put(foreign_key, subscription)"
    edit(patch, SubscriptionReceiveNode, "compile", old, "pass")


@rare_bug(of_variant("sources"))
def a_global_table_is_read_by_the_way(patch: Patch) -> None:
    """Tasks start before the global table is complete."""
    old = "while (waiting or self._behind) and not is_stopping():"
    edit(patch, GlobalStores, "bootstrap", old, "while False:")


@rare_bug(of_variant("sources"))
def a_global_table_starts_where_it_ends(patch: Patch) -> None:
    """A global table is followed, and what it held before is not read."""
    old = '"global_assign", self._consumer.assign, (starts,)'
    edit(patch, GlobalStores, "bootstrap", old, old.replace("starts", "ends"))


@bug
def a_global_table_is_not_followed(patch: Patch) -> None:
    """What comes after the start of an instance is never seen."""
    edit(patch, GlobalStores, "poll", "yield from self._read(0.0)", "yield from ()")


@bug
def a_global_table_forgets_where_it_was(patch: Patch) -> None:
    """Where one partition is cut off, all the others are read from there too."""
    old = "self._consumer.assign, (positions,)"
    edit(patch, GlobalStores, "_find_again", old, "self._consumer.assign, (starts,)")


@rare_bug(of_variant("sources"))
def a_source_topic_is_replayed_to_its_end(patch: Patch) -> None:
    """A table that is its topic knows what its task has not processed."""
    old = "log.end if committed is None else min(log.end, committed)"
    edit(patch, restore_plan, "target_of", old, "log.end", also=task_rows)


@bug
def rows_may_be_newer_than_the_offset(patch: Patch) -> None:
    """Local rows of a source topic are kept though the offset was set back before them."""
    old = "committed is not None and position > committed"
    edit(patch, restore_plan, "first_offset", old, "False", also=task_rows)


@bug
def a_restore_takes_the_times_of_the_records(patch: Patch) -> None:
    """A source topic's timestamp extractor is not asked in a restore."""
    edit(
        patch,
        restore,
        "readable",
        "= _extracted_time(spec)",
        "= lambda _key, _value, record_ms: record_ms",
        also=recovery_point,
    )


@bug
def a_restore_keeps_what_has_no_time(patch: Patch) -> None:
    """A record that its extractor had dropped is a row after a restore."""
    edit(patch, restore, "readable", " if timestamp >= 0 else None", "", also=recovery_point)
